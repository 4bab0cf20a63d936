"""Run the tests under coverage.py, in every process that they start, and print what they miss.

    python .ci/cover.py [PYTEST ARGUMENT ...]

`make cover` brings coverage.py. Printed are the lines and branches of mcpkit.py that no test of this
run reached, and the share of those that some did. Tests that start processes and end them by force
have nothing to say of what ran there, so a few lines are missed that are tested all the same.
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".work" / "coverage"
# `subprocess` has each Python that a test starts measured, `_exit` those that end so.
SETTINGS = f"""[run]
branch = true
parallel = true
include = {ROOT}/mcpkit.py
data_file = {FOLDER}/data
patch = subprocess, _exit
disable_warnings = no-data-collected, module-not-measured
[report]
show_missing = true
"""


# They hold of a process what coverage.py changes in it: which modules it has loaded.
LEFT_OUT = ("test_importing_the_module_loads_neither_inspect_nor_dataclasses",
            "test_without_a_state_file_nothing_of_sqlite_is_loaded")


def main(words):
    """Run the tests with coverage and print the report; return the exit code of the tests."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    settings = FOLDER / "settings"
    settings.write_text(SETTINGS)
    coverage = [sys.executable, "-m", "coverage"]
    rcfile = f"--rcfile={settings}"
    left_out = [f"--deselect=test_mcpkit.py::{name}" for name in LEFT_OUT]
    tests = subprocess.run([*coverage, "run", rcfile, "-m", "pytest", *left_out, *words,
                            "test_mcpkit.py"], cwd=ROOT)
    subprocess.run([*coverage, "combine", "-q", rcfile], cwd=ROOT)
    subprocess.run([*coverage, "report", rcfile], cwd=ROOT)
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
