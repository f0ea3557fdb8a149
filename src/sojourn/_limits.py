"""Every bound on what a stranger's file may ask of us, in one place.

A log is read within these whatever it holds. What goes past a bound is an error that says so, or
is left out and counted; nothing is silently cut but a label, which keeps its beginning and a hash
that keeps it apart from others. None of them is reached by an honest log: each is several
times the largest that was met.
"""

from __future__ import annotations

__all__ = [
    "ARCHIVE_BYTES",
    "ARCHIVE_DIRECTORY_BYTES",
    "ARCHIVE_FREE_BYTES",
    "ARCHIVE_MEMBERS",
    "ARCHIVE_MEMBER_BYTES",
    "ARCHIVE_RATIO",
    "ARCHIVE_WINDOW_BYTES",
    "ATTRIBUTE_LETTERS",
    "COMMAND_LETTERS",
    "CONVERSATION_BYTES",
    "CSV_BLOCK_BYTES",
    "DOCUMENT_LINES",
    "EVALUATIONS",
    "FIRST_RECORD_BYTES",
    "FOLDER_FILES",
    "HEAD_BYTES",
    "ID_LETTERS",
    "JSON_DEPTH",
    "JSON_INTEGER_DIGITS",
    "JSON_KEY_SETS",
    "LABEL_LETTERS",
    "LINE_BYTES",
    "MESSAGES",
    "OBSERVATION_LETTERS",
    "OPEN_SPANS",
    "PROFILE_BYTES",
    "REASON_LETTERS",
    "SETTINGS_BYTES",
    "SHOWN_LETTERS",
    "SKIP_REASONS",
    "STATES",
    "STATE_TABLE_BYTES",
    "STEP_NAME_LETTERS",
    "SUITE_DEPTH",
    "TRIALS",
]

# Folders and files
FOLDER_FILES = 1_000_000  # files below a folder that is named
HEAD_BYTES = 1 << 16  # bytes of a file that tell its format; a CSV's header must end within them
FIRST_RECORD_BYTES = 1 << 26  # a first line that is looked at whole, where a head does not do
LINE_BYTES = 1 << 30  # one line of JSON lines
CSV_BLOCK_BYTES = 1 << 24  # one row, or one quoted field, of a CSV
STATE_TABLE_BYTES = 1 << 24  # a user's table of states
PROFILE_BYTES = 1 << 20  # an operational profile
SETTINGS_BYTES = 1 << 20  # a file of settings

# JSON
JSON_DEPTH = 200  # levels of brackets
JSON_INTEGER_DIGITS = 18  # digits of an integer; a longer one becomes the nearest float
JSON_KEY_SETS = 4096  # different sets of keys of rows that are remembered

# ZIP archives
ARCHIVE_MEMBER_BYTES = 1 << 30  # what one member may inflate to
ARCHIVE_BYTES = 1 << 38  # what all members together may inflate to
ARCHIVE_MEMBERS = 1_000_000  # entries of the directory
ARCHIVE_DIRECTORY_BYTES = 1 << 28  # bytes of the directory
ARCHIVE_RATIO = 200  # inflated to packed bytes
ARCHIVE_FREE_BYTES = 1 << 24  # below which the ratio of a member is of no account
ARCHIVE_WINDOW_BYTES = 1 << 27  # history that a Zstandard frame may ask for

# Texts
LABEL_LETTERS = 512  # a task, session, agent, model or step that a log names
ATTRIBUTE_LETTERS = 200  # a label among the attributes of a span
OBSERVATION_LETTERS = 1 << 20  # an observation, before a pattern is matched to it
ID_LETTERS = 128  # ids of spans and traces, which are hexadecimal
STEP_NAME_LETTERS = 64  # the tool or command that names a step of an agent's log
COMMAND_LETTERS = 4096  # a command line, before a pattern is matched to it
REASON_LETTERS = 500  # why something was skipped
SHOWN_LETTERS = 80  # a label in a table that people read

# Numbers of things
MESSAGES = 1_000_000  # messages of one sample
CONVERSATION_BYTES = 1 << 30  # what the messages of one sample may inflate to
DOCUMENT_LINES = 1_000_000  # lines over which one JSON document of spans may be spread
EVALUATIONS = 100  # verdicts beside one trace
SUITE_DEPTH = 16  # suites inside suites of tests
TRIALS = 10_000  # attempts at the tasks of one folder
STATES = 10_000  # states of a model file
OPEN_SPANS = 200_000  # spans that are held at once; older traces are closed first
SKIP_REASONS = 10_000  # different reasons and places of what was skipped; the rest is added up
