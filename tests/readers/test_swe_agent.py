from readers.conformance import ReaderConformance


class TestConformance(ReaderConformance):
    format = "swe-agent"
    sample = "swe-agent"
    n_runs = 3
