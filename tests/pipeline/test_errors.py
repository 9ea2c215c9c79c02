from pipeline.errors import some


def test_some_names_the_first_and_counts_the_rest() -> None:
    assert some([]) == ""
    assert some(["a", "b"], 2) == "a, b"
    assert some(["a", "b", "c"], 2) == "a, b and 1 more"
    assert some([str(n) for n in range(1002)], 1, "; ") == "0 and 1,001 more"
