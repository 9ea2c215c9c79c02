"""Sweeps: one question set through variants of systems. `config.read_sweep`, `variants.checked`,
`execute.run_variants` and `outcome.outcome_table`, one after the other; `tune` chooses among the variants on questions
that are not those it reports on."""
