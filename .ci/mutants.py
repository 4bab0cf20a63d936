"""Break mcpkit.py, one line at a time, and see that the test which must catch it does.

    python .ci/mutants.py [--jobs 2] [NAME ...]

Each mutant is a row of MUTANTS: what no longer holds, the text that is changed (it stands in the
file once), what it becomes, and the test that must fail. Before, all of these tests must pass. A
mutant that survives is a claim that nothing would defend; it is printed, and the exit code is 1.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINKED = ("README.md", "Makefile", "samples", ".ci")       # what tests look at besides
SECONDS = 120                          # that tests may take: a mutant that hangs is caught too


class Mutant(NamedTuple):
    """One breakage of the file."""

    old: str
    new: str
    test: str                          # its name without "test_"


MUTANTS = {
    # 1. PROTOCOL FACTS, 2. ERRORS
    "the parse error has another code": Mutant(
        "PARSE_ERROR = -32700", "PARSE_ERROR = -32600",
        "a_body_that_is_no_message_is_c90_refused_and_the_connection_goes_on"),
    # 3. JSON-RPC MESSAGES
    "a number is as long as it likes": Mutant(
        "if digits > MAX_NUMBER_DIGITS:", "if False:",
        "bytes_that_are_no_json_are_refused_with_the_reason"),
    # 4. SERVER-SENT EVENTS
    "lines end where text has odd line ends": Mutant(
        "        for line in data.splitlines(keepends=True):",
        "        for line in re.split(b'(?<=[\\n\\r\\x0b\\x0c])', data):",
        "a_stream_means_the_same_however_it_is_cut"),
    "a CRLF that is cut ends two lines": Mutant(
        '        self._skip_newline = data.endswith(b"\\r")\n', "",
        "a_crlf_cut_between_blocks_ends_one_line_only"),
    "events have any size": Mutant(
        "            if self._size + len(self._rest) > self._max_event_bytes:",
        "            if len(self._rest) > self._max_event_bytes:",
        "only_what_is_beyond_the_limit_is_refused_however_it_is_cut"),
    "all spaces after a colon are dropped": Mutant(
        '    return name, value[1:] if value.startswith(b" ") else value',
        "    return name, value.lstrip()",
        "a_stream_means_the_same_however_it_is_cut"),
    # 5. HTTP HEADERS
    "a header's name may end with a space": Mutant(
        '0-9A-Za-z]+):([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)")',
        '0-9A-Za-z]+) *:([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)")',
        "a_head_that_could_be_read_in_two_ways_is_refused"),
    "a second length replaces the first": Mutant(
        '        headers[name] = f"{headers[name]}, {value}" if name in headers else value',
        "        headers[name] = value",
        "a_refused_request_has_a_status_of_its_own_and_is_never_read_as_the_next"),
    "any number of headers is read": Mutant(
        "    if len(lines) > max_headers:", "    if len(lines) > 10 * max_headers:",
        "a_refused_request_has_a_status_of_its_own_and_is_never_read_as_the_next"),
    "chunk sizes may have underscores": Mutant(
        'rb"([0-9A-Fa-f]{1,15})[', 'rb"([0-9A-Fa-f_]{1,15})[',
        "a_chunked_body_is_the_same_however_it_is_cut"),
    "a name that begins with localhost is this machine": Mutant(
        "    return _LOOPBACK.fullmatch(host.lower()) is not None",
        "    return _LOOPBACK.match(host.lower()) is not None",
        "a_head_is_admitted_or_refused_before_the_body"),
    "any host is served on loopback": Mutant(
        "    if not (loopback or allowed):\n        return True", "    return True",
        "a_head_is_admitted_or_refused_before_the_body"),
    # 8. REQUEST CLASSIFICATION
    "a form may be posted": Mutant(
        "    if media_type != JSON_TYPE:", "    if not media_type:",
        "a_head_is_admitted_or_refused_before_the_body"),
    "a compressed body is taken for a plain one": Mutant(
        '    if head.headers.get("content-encoding", "identity").lower() != "identity":',
        "    if False:",
        "a_head_is_admitted_or_refused_before_the_body"),
    "the method in the header need not be that of the body": Mutant(
        '    if headers.get("mcp-method") != message.method:', "    if False:",
        "a_modern_message_is_routed_or_refused_by_the_first_check"),
    # 9. ACCESS
    "a token that has expired is good": Mutant(
        "    if expires is not None and not (_is_number(expires) and now < expires):",
        "    if False:", "the_claims_of_a_token_are_held_against_clock_and_audience"),
    "a token for others is good": Mutant(
        "isinstance(name, str) and _normalize(name) in audience for name in names)):",
        "isinstance(name, str) for name in names)):",
        "the_claims_of_a_token_are_held_against_clock_and_audience"),
    "the first token that differs ends the comparison": Mutant(
        "            number = candidate if hmac.compare_digest(digest, known) else number",
        "            number = candidate if digest == known else number",
        "fixed_tokens_are_all_compared_wherever_one_fits"),
    "an answer about a token outlives the token": Mutant(
        '            lasts = min(lasts, max(principal.claims["exp"] - int(time.time()), 0))',
        "            pass",
        "an_answer_is_remembered_for_a_while_and_never_beyond_the_end_of_its_token"),
    "any number of tokens is remembered": Mutant(
        "            while len(self._known) > MAX_KNOWN_TOKENS:", "            while False:",
        "the_memory_of_tokens_is_bounded_and_holds_no_token"),
    "a verify that fails lets everybody in": Mutant(
        '            raise HTTPError(500, "Internal error", code=INTERNAL_ERROR) from None',
        '            return Principal("somebody", None)',
        "a_verify_that_fails_lets_nobody_in_and_says_why_in_the_log_only"),
    # 10. SESSIONS AND STREAMS
    "a session is anybody's": Mutant(
        "            if session is None or session.owner != owner:", "            if session is None:",
        "a_session_is_there_for_who_opened_it_and_nobody_else"),
    "there is any number of sessions": Mutant(
        " or len(self._by_id) >= self._limits.max_sessions:", ":", "sessions_expire_make_room_and_are_kept_by_use"),
    "sessions do not expire": Mutant(
        "return not session.channels and now - session.last_used > self._limits.session_seconds",
        "return False", "sessions_expire_make_room_and_are_kept_by_use"),
    "a stream has any length": Mutant(
        "while len(self._messages) > self._limits.max_events or (", "while (",
        "a_stream_keeps_the_newest_only_and_goes_on_after_the_event_that_is_named"),
    # 11. ASKING THE CLIENT
    "a state need not be signed": Mutant(
        "            if hmac.compare_digest(signature, self._sign(data)):", "            if signature:",
        "a_state_that_was_tampered_with_is_refused_whatever_else_is_sent"),
    "a state is good for any request": Mutant(
        'if state is None or state["for"] != self._purpose:', "if state is None:",
        "a_state_is_good_for_its_own_request_and_caller_and_server_only"),
    "a state is good for anybody": Mutant(
        "[server_name, route.message.method, route.subject, _build_digest(",
        "[server_name, route.message.method, None, _build_digest(",
        "a_state_is_good_for_its_own_request_and_caller_and_server_only"),
    "a state is good for ever": Mutant(
        '        if state["until"] < self._runtime.wall_now():', "        if False:",
        "a_stale_state_is_refused_and_servers_with_one_secret_take_each_others"),
    "what a user answers is not held against the form": Mutant(
        "                results[key] = read_answer(key, question, answer)",
        "                results[key] = answer",
        "an_answer_that_breaks_the_rules_is_refused_in_both_eras"),
    "items of a set may all hash alike": Mutant(
        "        if is_set and max(", "        if False and max(",
        "what_a_type_refuses_is_an_error_that_names_the_argument"),
    "scopes of a server are typed into a shell as they are": Mutant(
        '" --scope ".join((command, *map(shlex.quote, scopes)))',
        '" --scope ".join((command, *scopes))',
        "the_command_that_logs_in_is_one_that_a_shell_takes_as_it_is"),
    # 12. TASKS
    "a task is anybody's": Mutant(
        "FROM task WHERE id = ? AND principal IS ? AND ", "FROM task WHERE id = ? AND ? IS NOT 1 AND ",
        "a_task_is_known_only_to_who_started_it"),
    "any number of tasks runs": Mutant(
        "                if len(self._calls) >= limit:\n", "                if False:\n",
        "only_so_many_tasks_run_and_an_end_makes_room"),
    "a task that has ended changes": Mutant(
        "changed = task if row is None or row[1] is None else change(task)",
        "changed = task if row is None else change(task)",
        "a_cancelled_task_is_over_at_once_and_stays_so"),
    "tasks make room in any order": Mutant(
        "IS NOT 1 ORDER BY rowid LIMIT ?)", "IS NOT 1 ORDER BY -rowid LIMIT ?)",
        "only_so_many_tasks_are_kept_and_those_that_ended_first_make_room"),
    "a full disk is a bare internal error": Mutant(
        "        except sqlite3.Error as error:               # a full disk, say",
        "        except ZeroDivisionError as error:",
        "a_file_that_cannot_be_used_is_reported_to_client_and_operator_and_loses_no_task"),
    "a state file is for all to read": Mutant(
        "os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))", "os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))",
        "a_state_file_is_its_owners_only"),
    # 13. SERVER, 14. HANDLER RESULTS
    "what a tool raises is told to the caller": Mutant(
        'return _build_tool_error(f"Error calling tool {tool.key!r}: internal error")',
        "return _build_tool_error(str(sys.exc_info()[1]))",
        "what_a_tool_does_wrong_is_logged_here_and_says_nothing_there"),
    "a template leads out of its place": Mutant(
        'if texts is None or any(".." in re.split(r"[/\\\\]", text) for text in texts.values()):',
        "if texts is None:",
        "a_request_is_answered_as_its_handler_means_it_or_by_an_error_that_says_why"),
    "a modern or unknown version is echoed": Mutant(
        "version = requested if requested in LEGACY_VERSIONS else LATEST_LEGACY_VERSION",
        "version = requested",
        "c45_initialize_agrees_on_a_legacy_revision_and_never_echoes_another"),
    "what one caller may see is cached for all": Mutant(
        '                result["cacheScope"] = "private"', "                pass",
        "a_list_shows_what_the_caller_may_reach_on_pages_of_equal_size"),
    # 16. SERVING
    "a connection that was refused goes on": Mutant(
        "            # What was not read of this request must never be taken for the next one.\n"
        "            self.close_connection = True",
        "            self.close_connection = False",
        "a_refused_request_has_a_status_of_its_own_and_is_never_read_as_the_next"),
    "a line on stdio has any length": Mutant(
        "        if len(line) > limit + 1:", "        if False:",
        "a_bad_line_on_stdio_is_answered_and_the_next_one_too"),
    "prints go between the messages of stdio": Mutant(
        "    sys.stdout = sys.stderr\n", "    sys.stdout = os.fdopen(writer.fileno(), 'w', "
        "closefd=False)\n",
        "c110_a_stdio_server_speaks_utf8_and_keeps_prints_off_its_output"),
    # 18. CLIENT to 23. CLIENT API
    "a header of the caller's may have line ends": Mutant(
        'if not (_TOKEN.fullmatch(name) and _HEADER_LINE.fullmatch(f"{name}: {value}")\n'
        '            and value.isascii()):',
        "if not _TOKEN.fullmatch(name):",
        "only_what_is_a_header_is_sent_as_one"),
    "any number of results is cached": Mutant(
        "        while len(self._kept) >= MAX_CACHED:", "        while False:",
        "a_cache_is_bounded"),
    "a login takes any state": Mutant(
        '                               state.encode("ascii")):',
        '                               members.get("state", "").encode("utf-8")):',
        "a_redirect_that_is_not_the_answer_of_this_login_is_refused"),
    "a redirect leads to another origin": Mutant(
        "    if not is_upgrade and not is_same_origin(url, target):", "    if False:",
        "c63_what_a_request_carries_is_never_sent_where_it_may_not_go"),
    "a POST follows a 302": Mutant(
        "    if status not in (307, 308) or target is None:", "    if target is None:",
        "c63_what_a_request_carries_is_never_sent_where_it_may_not_go"),
    "redirects have no end": Mutant(
        "        while redirects <= MAX_REDIRECTS:", "        while redirects <= 10 ** 6:",
        "c63_what_a_request_carries_is_never_sent_where_it_may_not_go"),
    "an answer has any size": Mutant(
        "        if self.size > self.max_bytes:", "        if False:",
        "an_answer_is_the_same_however_it_is_cut"),
    "an endpoint may be at another origin": Mutant(
        "    if not is_same_origin(endpoint, url):", "    if False:",
        "c23_c26_a_stream_without_an_endpoint_of_its_own_is_no_mcp"),
    "a list has any number of pages": Mutant(
        "        while len(pages) < MAX_PAGES and", "        while len(pages) < 2 * MAX_PAGES and",
        "a_list_is_read_to_its_end_or_a_limit_with_a_warning"),
    "a server asks for ever": Mutant(
        "            for _ in range(MAX_ROUNDS):", "            for _ in range(10 ** 9):",
        "a_server_that_asks_for_ever_is_left_after_some_rounds"),
    "a child's children outlive it": Mutant(
        'os.killpg(self._child.pid, getattr(', 'os.kill(self._child.pid, getattr(',
        "c115_nothing_of_a_child_survives_it_but_what_left_its_group"),
    "a child's line has any length": Mutant(
        "                if len(line) > most:", "                if False:",
        "a_line_of_a_child_has_a_limit"),
    "a token file that cannot be replaced is lost": Mutant(
        "        os.replace(new, path)", "        open(path, 'wb').write(data)",
        "a_token_file_is_replaced_as_a_whole_or_stays_as_it_is"),
    # 24. PROBE CHECKS to 30. COMMAND LINE
    "a report is markup": Mutant(
        "    return html.escape(escape_text(text))", "    return escape_text(text)",
        "the_html_report_is_one_page_without_scripts_that_shows_markup_as_text"),
    "secrets of a configuration are printed": Mutant(
        "            text = text.replace(secret, name)\n", "",
        "c121_nothing_of_an_entry_that_may_be_secret_is_left_in_a_text"),
    "a secret that was cut off shows its beginning": Mutant(
        "            if len(text) <= MAX_SHORTENED:", "            if False:",
        "of_a_secret_that_was_cut_off_no_beginning_is_left"),
}


def find_faults(source):
    """Return what is wrong with the table: texts that are not in the file exactly once."""
    return [f"{name}: stands in the file {source.count(mutant.old)} times"
            for name, mutant in MUTANTS.items() if source.count(mutant.old) != 1]


def prepare(folder):
    """Put what the tests need into a folder; what was compiled of them comes along."""
    shutil.copy2(ROOT / "test_mcpkit.py", folder)
    shutil.copy2(ROOT / "mcpkit.py", folder)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


def run_tests(folder, tests):
    """Return whether tests pass in a folder, and what pytest says."""
    names = [f"test_mcpkit.py::test_{test}" for test in sorted(tests)]
    # Without rewritten assertions the test file is compiled once for all.
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--assert=plain", "-p",
               "no:cacheprovider", "--tb=line", *names]
    # A mutant may leave processes behind: they end with their group.
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = child.communicate(timeout=SECONDS * (1 if len(names) == 1 else 5))
    except subprocess.TimeoutExpired:
        output = "took too long"
    finally:
        end_group(child)
    return child.returncode, output


def end_group(child):
    """End a process with all that it has started."""
    try:
        os.killpg(child.pid, 9)
    except (OSError, AttributeError):
        child.kill()
    child.wait()


def run_mutant(name, base, source):
    """Return why a mutant was not caught, None where it was."""
    mutant = MUTANTS[name]
    with tempfile.TemporaryDirectory(prefix="mcpkit-mutant-") as place:
        folder = pathlib.Path(place)
        prepare(folder)
        shutil.copytree(base / "__pycache__", folder / "__pycache__",
                        ignore=shutil.ignore_patterns("mcpkit.*"))
        (folder / "mcpkit.py").write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
        code, output = run_tests(folder, [mutant.test])
    if code == 0:
        return f"survived test_{mutant.test}"
    # 1: tests have failed; below 0: it took too long, or ended the tests themselves.
    return None if code == 1 or code < 0 else f"was not tested: {output[-500:]}"


def main(words=None):
    """Run mutants; return 0 when all are caught, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="words of a mutant's name")
    parser.add_argument("--jobs", type=int, default=2, help="at a time (%(default)s)")
    options = parser.parse_args(words)
    source, started = (ROOT / "mcpkit.py").read_text(encoding="utf-8"), time.monotonic()
    faults = find_faults(source)
    chosen = [name for name in MUTANTS if not options.names
              or any(word in name for word in options.names)]
    with tempfile.TemporaryDirectory(prefix="mcpkit-mutants-") as place:
        base = pathlib.Path(place)
        prepare(base)
        code, output = run_tests(base, {MUTANTS[name].test for name in chosen})
        if faults or code != 0:
            print(*faults, *([] if code == 0 else ["unmutated, tests fail:", output]), sep="\n")
            return 1
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            verdicts = pool.map(lambda name: run_mutant(name, base, source), chosen)
            faults = [f"{name}: {fault}" for name, fault in zip(chosen, verdicts) if fault]
    print(*faults, f"{len(chosen) - len(faults)} of {len(chosen)} mutants were caught, in "
          f"{time.monotonic() - started:.0f} s", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
