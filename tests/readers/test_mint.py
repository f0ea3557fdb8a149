from readers.conformance import ReaderConformance


class TestConformance(ReaderConformance):
    format = "mint"
    sample = "mint-bench"
    n_runs = 5
