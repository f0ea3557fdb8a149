from readers.conformance import ReaderConformance


class TestFile(ReaderConformance):
    format = "tau2-bench"
    sample = "tau2-bench/telecom.json"
    n_runs = 4


class TestFolder(ReaderConformance):
    format = "tau2-bench"
    sample = "tau2-bench/voice"
    n_runs = 2
