"""The command line: it reads arguments and writes files, and computes nothing."""
