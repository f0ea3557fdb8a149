from readers.conformance import ReaderConformance


class TestConformance(ReaderConformance):
    format = "tau-bench"
    sample = "tau-bench/results.json"
    n_runs = 4
