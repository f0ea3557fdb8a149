from readers.conformance import ReaderConformance


class TestRun(ReaderConformance):
    format = "mini-swe-agent"
    sample = "mini-swe-agent/run"
    n_runs = 4


class TestOld(ReaderConformance):
    format = "mini-swe-agent"
    sample = "mini-swe-agent/old/local.traj.json"
    n_runs = 1
