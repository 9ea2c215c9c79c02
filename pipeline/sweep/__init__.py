"""Sweeps: one question set through variants of systems. `config.read_sweep`, `variants.checked`, `execute.run_variants`,
`outcome.outcome_table`, one after the other; `tune` chooses among them on questions that are not those it reports on."""
