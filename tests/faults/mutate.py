#!/usr/bin/env python3
"""Takes the mends of the library out, one at a time, and sees that a test fails for each.

    tests/faults/mutate.py BUILD [--only FAULT,...] [--check] [--compiler g++]

BUILD is a build folder whose virtual GPU library is built (cmake --build BUILD --target hostoffload_virtual_gpu).
For each mutation below the headers are copied into a temporary folder, one text in one of them is replaced, and the one
test named is compiled without optimisation against the copy and run: it has to fail; against the headers as they are it
has to pass. Exits with 1 when a mutation survives, does not compile where it should, or its text does not occur exactly
once. --check does only the last; it takes no time and needs no BUILD.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

LIFE = "library/life_test.cpp"
LIFETIME = "library/lifetime_test.cpp"
WINDOW = "library/window_test.cpp"
SEVERAL = "library/several_test.cpp"
MISUSE = "library/misuse_test.cpp"
PLANNED = "library/planned_test.cpp"
CHOICE = "library/choice_test.cpp"
STEADY = "library/steady_test.cpp"
FAULTS = "library/faults_test.cpp"
MEMORY = "library/faults_memory_test.cpp"
LANGUAGE = "library/faults_language_test.cpp"
PINNED = "memory/pinned_slab_test.cpp"
CAPTURE = "library/capture_test.cpp"
SMALL = "library/small_copies_test.cpp"
HEADERS = "headers: linked twice"

CHOOSING = "schedule/recompute_choice.hpp"
COPIES = "schedule/engine_copies.hpp"
LEASE = "schedule/engine_lease.hpp"
MAKING = "schedule/engine_making.hpp"
STEP = "schedule/engine_step.hpp"
WAITING = "schedule/engine_waiting.hpp"

K_SLOTS = "K slots for N tensors: each is fetched with its own values"
SECOND_STREAM = "a read on a second stream is ordered behind the writer, and the memory's next user behind it"
KEPT_APART = "more streams, one after the other, than are kept apart: the memory's next user is behind all"
THRESHOLD = "copies of the threshold and above are a call each, and so is every copy where the threshold is 0"
OPTIONS = "every option has an effect"
PEAK = "the peak may be in any layer: offload and recomputation lower it, and the report has it"
ENGINES = "copies run on the copy engines at the rate of pinned memory, and launch no kernel"
LOSES_NO_SLOT = "a call that fails while a tensor leaves or returns loses no slot"
HOLD_AND_WAIT = "coroutines that each hold a slot while they wait, and then need another, all end"
NUMA = "pinned slab: on the GPU's NUMA node, and where that is impossible a warning and on"
HELD = "memory that somebody else still holds is planned but not freed, and the report says so"
NOT_CAPTURED = "what a captured step must not do is an error that says so, and the scheduler is as before"
SLOW_LINK = "behind a slow link cheap tensors are made again, and the report says which, why and what it gains"
STACK = "nobody is resumed from within an await: the stack is as deep before as after"
CAPTURES = "the captures of define functions and of the step live as long as their coroutines"
MOVES = "owners that are moved leave one owner: assigned, to themselves, into a new one"

ON_KERNEL = """hostoffload::launch(order_.handle(in_id_), 1,
         [to = target.begin, from = r.host->begin, bytes = r.life_bytes](std::size_t) { std::memcpy(to, from, bytes); },
         {.name = "copy", .reads = {{r.host->begin, r.life_bytes}}, .writes = {{target.begin, r.life_bytes}}});"""

# Fault, header below include/hostoffload, text, what takes its place, source of the test, its name, and headers that
# the new text needs.
MUTATIONS = [
    (1, COPIES, "  needed.join(r.host_written);\n", "", LIFE, K_SLOTS),
    (2, COPIES, "  r.readers.join(out_id_, point);\n", "", LIFE, K_SLOTS),
    (2, LEASE, "(writing ? r.written : r.readers).join(on, released);", "if (writing) r.written.join(on, released);",
     LIFE, SECOND_STREAM),
    (2, "memory/slot_cache.hpp", "    for (const slot& s : slots_) {\n      to.add(s.bytes);\n      to.add(s.behind);\n    }",
     "    for (const bucket& b : buckets_) {\n      for (const slot* s = b.first; s != nullptr; s = s->next) to.add(s->behind);\n"
     "    }", STEADY,
     "slots that two tensors of one size take in turns, step by step: each step waits for what it reuses"),
    (3, COPIES, "stream_clock needed = target.behind;", "stream_clock needed;", LIFE, K_SLOTS),
    (4, LEASE, "(writing ? r.written : r.readers).join(on, released);",
     "(writing ? r.written : r.readers).join(compute_id, order_.next_point(compute_id));", LIFE, SECOND_STREAM),
    (4, "cuda/stream_order.hpp", "      hold(s, m, {});\n", "", LIFE, KEPT_APART),
    (5, COPIES, "calls().copy(target.begin, r.host->begin,",
     "calls().copy(target.begin, tensors_[tensors_.size() - 1 - now_.copies_in % tensors_.size()]->host->begin,",
     LIFE, K_SLOTS),
    (6, "cuda/stream_order.hpp", "streams_[i].unique == unique", "streams_[i].handle == handle", FAULTS,
     "a handle that comes to stand for another stream is told from before"),
    (6, STEP, "    r->generation = generation;\n", "", FAULTS,
     "a lease on a tensor that is gone is not taken for one on the tensor in its place"),
    (6, MAKING, "    if (q.generation == q.tensor->generation) return;\n", "    if (q.data != nullptr) return;\n", LIFETIME,
     "what a coroutine has waited for is destroyed before it goes on: it is told, and has no lease"),
    (6, LEASE, "if (closed_ || generation != r.generation) return;", "if (closed_) return;", MISUSE,
     "a lease that is held when the step ends is an error, and void from then on"),
    (7, LEASE, "  put_behind(q.stream, r.written, r.as_purpose());\n", "", WINDOW,
     "every window from the least to unlimited gives the values of save"),
    (8, LEASE, "    free_slot(r, r.device, last_users(r));\n  }\n  if (r.on_host)",
     "    free_slot(r, r.device, {});\n  }\n  if (r.on_host)", FAULTS,
     "a tensor is destroyed right after it was stowed: who gets its memory goes behind the copy out"),
    (8, STEP, "    behind.join(r.host_read);\n", "", FAULTS,
     "a tensor is destroyed while its copy in is under way: who gets its host memory goes behind it"),
    (8, STEP, "  r.host_read = r.host->behind;\n", "", FAULTS,
     "a tensor is destroyed while its copy in is under way: who gets its host memory goes behind it"),
    (9, WAITING, "      check(cudaEventSynchronize(q.arrived.get()),", "      static_cast<void>(0), check(cudaSuccess,",
     SEVERAL, "host values: other coroutines go on, and the host waits once per read"),
    (11, "placement.hpp", "static_assert(!never,", "static_assert(true,", "compile_fail/name_in_no_rule.cpp", ""),
    (11, "placement.hpp", "static_assert(detail::is_enumerator<Name>,", "static_assert(true,",
     "compile_fail/policy_of_no_enumerator.cpp", ""),
    (12, COPIES, "  row(r).planned_bytes += r.life_bytes;\n  now_",
     "  row(r).planned_bytes += r.life_bytes;\n  row(r).freed_bytes += r.life_bytes;\n  now_", FAULTS, HELD),
    (12, COPIES, "  row(r).freed_bytes += r.life_bytes;\n  r.device", "  r.device", FAULTS, HELD),
    (13, STEP, "if (options.window != unlimited) {", "if (false) {", FAULTS, OPTIONS),
    (13, STEP, "  if (options.overlap) {", "  if (true) {", FAULTS, OPTIONS),
    (13, STEP, "options_.sample_every != 0 && steps_ >= 3", "false", FAULTS, OPTIONS),
    (13, STEP, "memory_region rest = options.device_memory;", "memory_region rest;", FAULTS, OPTIONS),
    (13, STEP, "host_.emplace(options.host_memory);", "host_.emplace();", FAULTS, OPTIONS),
    (13, STEP, "                                     : options_.host_capacity;", ": unlimited;", FAULTS, OPTIONS),
    (13, STEP, "order_.add(options.compute, \"compute\");", "order_.add(nullptr, \"compute\");", FAULTS, OPTIONS),
    (13, COPIES, "  order_.calls().tell(options_.observer.taken, s.begin, s.bytes);\n", "", FAULTS, OPTIONS),
    (14, COPIES, "r.treated_as() == choice::remat && r.pattern.in_longest_gap()", "false", FAULTS, PEAK),
    (14, COPIES, "if (r.last_use || r.temporary) {", "if (r.last_use) {", FAULTS, PEAK),
    (14, COPIES, "  now_.device_peak_bytes = std::max(now_.device_peak_bytes, window_held_ + device_held_);\n", "",
     FAULTS, PEAK),
    (15, STEP, "  history_->end(now_, compute());\n",
     """  history_->end(now_, compute());
  for (tensor_record* r : tensors_) {
    if (r->host != nullptr) host_->give_back(*std::exchange(r->host, nullptr), {});
  }
  host_->release_unused();
""", STEADY, "a steady step allocates nothing, synchronises nothing, asks nothing"),
    (16, "cuda/allocation.hpp", "return cudaHostAlloc(begin, bytes, cudaHostAllocPortable);",
     "*begin = ::operator new(bytes); return cudaSuccess;", MEMORY, ENGINES),
    (17, STEP, "in_id_ = order_.add(in_stream_->get(), \"copy in\");", "in_id_ = out_id_;", MEMORY,
     "a copy in that is needed now does not stand behind a queue of copies out"),
    (18, LEASE, "const bool stays = r.last_use || r.temporary || follows_plan();",
     "const bool stays = r.last_use || r.temporary;", PLANNED,
     "a plan with room to spare keeps tensors on the device: fewer copies than without a plan"),
    (18, CHOOSING, "if (s < best.step_s) {", "if (s < 0) {", CHOICE, SLOW_LINK),
    (18, "schedule/plan_trial.hpp", "return with_s_ > slower * without_s_;", "return without_s_ < 0;", PLANNED,
     "no plan is kept with which steps are slower than without one"),
    (20, COPIES,
     "order_.calls().copy(target.begin, r.host->begin, r.life_bytes, cudaMemcpyHostToDevice, order_.handle(in_id_), what);",
     ON_KERNEL, MEMORY, ENGINES,
     "hostoffload/launch.hpp", "cstring"),
    (13, COPIES, "r.life_bytes < options_.batch_copies_below", "r.life_bytes < 2048", SMALL, THRESHOLD),
    (13, STEP, "host_->reserve(bytes, {}, options_.host_pinning);", "host_->reserve(bytes, {});", PINNED,
     "pinned slab: a scheduler that is told to registers what its tensors need, once, with at most a page of waste"),
    (22, STEP, "host_->reserve(bytes, {}, options_.host_pinning);", "host_->reserve(std::bit_ceil(bytes), {});", MEMORY,
     "pinned memory is what the tensors need, to 256 bytes each", "bit"),
    (21, "memory/pinned_slab.hpp", "pages.bind_to(*node_);", "std::string();", PINNED, NUMA),
    (21, "memory/pinned_slab.hpp", "if (elsewhere && *elsewhere > 0) {", "if (false) {", PINNED, NUMA),
    (22, "memory/host_pages.hpp", "bytes_ = (bytes + page - 1) / page * page;",
     "bytes_ = std::max(page, std::bit_ceil(bytes));", PINNED,
     "pinned slab: exact size, at most a page of waste, all of it there, and it copies", "bit"),
    (22, "memory/pinned_slab.hpp", "    check_limits(bytes, capacity, options.root);\n", "", PINNED,
     "pinned slab: more than a control group leaves is an error with the numbers, before anything is pinned"),
    (23, COPIES, "planner_->departed() ? nullptr : planner_->cursor.place_of(r);", "nullptr;", PLANNED,
     "steps follow the plan of a timed one: in the predicted time and memory, with the values of any step"),
    (24, LEASE, "  r.last_use = r.last_use || q.last_use;\n", "", MEMORY,
     "device memory goes back at the last use, not at the end of the step"),
    (25, COPIES, "    free_slot(r, taken, order_.next_points());\n    throw;", "    throw;", MEMORY, LOSES_NO_SLOT),
    (25, COPIES, "    engine_.free_slot(*m.tensor, taken, engine_.order_.next_points());\n", "    static_cast<void>(taken);\n",
     SMALL, "a batch that fails leaves the values where they are, and no slot is lost"),
    (25, COPIES, "    m.tensor->host_read.join(engine_.in_id_, engine_.order_.next_point(engine_.in_id_));\n", "", MEMORY,
     "a copy in whose event cannot be recorded has read the host memory: the next copy out waits for it"),
    (25, COPIES, " || order_.calls().is_passing()", "", MEMORY,
     "a call that fails where one of several coroutines asks what a step alone did is told as that call"),
    (25, LEASE, "    free_slot(r, taken, taken->behind);\n    throw;", "    throw;", MEMORY, LOSES_NO_SLOT),
    (25, MAKING, "    free_slot(*m, taken, has_run ? order_.next_points() : taken->behind);\n", "    taken = nullptr;\n",
     MEMORY, LOSES_NO_SLOT),
    (26, STEP, "if (options_.window > rest.bytes) {", "if (false) {", WINDOW,
     "slots are aligned to 256 bytes and carved from memory that the caller gives"),
    (26, "offload_tensor.hpp", "if (elements <= (std::numeric_limits<std::size_t>::max() / 2) / sizeof(T)) return",
     "if (true) return", MISUSE, "a tensor without elements, or of a layer that does not exist"),
    (26, COPIES, "return {expected - std::min(expected, window_in_use_ + bytes), false};",
     "return {expected - (window_in_use_ + bytes), false};", MEMORY,
     "more in use at one time than in any step before: what is to be left free does not wrap around"),
    (27, LEASE, "if (r.device == nullptr && r.on_host) {", "if (r.on_host) {", LIFE,
     "what is resident or still leaving is taken over, not fetched"),
    (28, STEP, "  history_->end(now_, compute());\n",
     """  history_->end(now_, compute());
  for (tensor_record* r : tensors_) {
    if (r->host != nullptr) host_->give_back(*std::exchange(r->host, nullptr), {});
  }
  host_->release_unused();
""", STEADY, "a steady step that follows a plan allocates nothing, synchronises nothing, asks nothing"),
    (29, COPIES, "  return {needed, true};", "  return {needed, false};", MEMORY, HOLD_AND_WAIT),
    (29, WAITING, "  if (!value_first && serve_oldest()) return;\n", "", MEMORY, HOLD_AND_WAIT),
    (30, WAITING, "  if (first_waiting_ == nullptr) {", "  if (false) {", MISUSE,
     "a coroutine that awaits what no scheduler knows"),
    (30, LEASE, "r.made_by != nullptr && q.line->makes(r.made_by.get())", "false", MISUSE,
     "define functions that await each other"),
    (30, WAITING, "while (told != nullptr && told->tensor->state == life::making)", "while (false)", MISUSE,
     "define functions of two coroutines that wait for each other"),
    (31, STEP, "if (*s) ignore(cudaStreamSynchronize((*s)->get()));",
     "if (*s) check(cudaStreamSynchronize((*s)->get()), \"cudaStreamSynchronize\");", LANGUAGE,
     "a scheduler of static lifetime ends quietly when the device is gone"),
    (31, "schedule/step_history.hpp", "  std::vector<std::pair<event, event>> spare_;",
     "  static inline std::vector<std::pair<event, event>> spare_;", LANGUAGE,
     "nothing of static lifetime in the headers but the frames of a thread"),
    (32, "cuda/event.hpp", "detail::check(cudaEventRecord(handle_, on), \"cudaEventRecord\", what);",
     "detail::ignore(cudaEventRecord(handle_, on)), static_cast<void>(what);", MEMORY,
     "an event of one device on a stream of another: the error is raised"),
    (33, COPIES, "    if (capturing_ && !device_->has_free(bytes)) {", "    if (false) {", CAPTURE,
     "device memory that no step has needed before is not allocated in a capture"),
    (33, COPIES, " && !capturing_", "", SMALL,
     "without overlap, and in a captured step, small copies are a call each"),
    (33, "host_values.hpp", "    engine_->throw_if_capturing(\"host_values::read of \" + std::to_string(n) + \" elements\");\n",
     "", CAPTURE, NOT_CAPTURED),
    (33, STEP, "  throw_if_capturing(\"report\");\n", "", CAPTURE, NOT_CAPTURED),
    (34, "schedule/engine_capture.hpp", "    finish_step();\n    join_streams();\n", "    finish_step();\n", CAPTURE,
     "copies that nobody waits for are joined before a capture ends"),
    (34, STEP, "    if (r.leases != 0) {\n      order_.record_leases();",
     "    {\n      if (r.leases == 0) r.written.join(order_.next_points());\n      order_.record_leases();", CAPTURE,
     "a tensor destroyed while a step is captured: who gets its memory waits for nothing outside of the capture"),
    (34, STEP, "    if (has_launched_) check(cudaStreamSynchronize(compute()), \"cudaStreamSynchronize\");\n", "", CAPTURE,
     "pinned memory that has to make room is given back behind the launches that copy to it"),
    (34, "cuda/stream_order.hpp", "    l.record_failed = true;\n", "", MEMORY,
     "an event that cannot be created: a graph launched next is behind the copy that it was for"),
    (35, "coroutine/task.hpp", "p.runner->put_first(*p.continuation);", "p.continuation->self.resume();", LANGUAGE,
     STACK),
    (35, "coroutine/task.hpp", "frame_.promise().runner->put_first(frame_.promise());", "frame_.resume();", LANGUAGE,
     STACK),
    (35, "prefetch_scheduler.hpp", "        engine->abandon_step();  // before root", "        // before root",
     LANGUAGE, "a step abandoned while its coroutines are suspended ends their leases and enqueues nothing more"),
    (36, "define.hpp", "return function_(out(", "return Function(function_)(out(", LANGUAGE, CAPTURES),
    (36, "prefetch_scheduler.hpp", "auto root = std::forward<Begin>(begin)();", "auto root = std::decay_t<Begin>(begin)();",
     LANGUAGE, CAPTURES),
    (37, "cuda/stream.hpp", "stream(std::move(other)).swap(*this);", "swap(other);", LANGUAGE, MOVES),
    (37, "cuda/event.hpp", "event(std::move(other)).swap(*this);",
     "handle_ = std::exchange(other.handle_, nullptr);", LANGUAGE, MOVES),
    (37, "cuda/allocation.hpp", "allocation(std::move(other)).swap(*this);",
     "region_ = std::exchange(other.region_, {});", LANGUAGE, MOVES),
    (37, "lease.hpp", "lease(std::move(other)).swap(*this);", "end(); swap(other); other.end();", LANGUAGE, MOVES),
    (37, "coroutine/task.hpp", "task(std::move(other)).swap(*this);", "swap(other);", LANGUAGE, MOVES),
    (37, "offload_tensor.hpp",
     """  [[nodiscard("hostoffload: a lease that is not kept ends at once: bind it to a name")]] lease<const T> fetch(
      cudaStream_t on) & {""", "  lease<const T> fetch(cudaStream_t on) & {", "compile_fail/lease_discarded.cpp", ""),
    (38, STEP, "inline tensor_record& engine::add(", "tensor_record& engine::add(", HEADERS, ""),
    (38, "errors.hpp", "namespace hostoffload::inline v0 {", "namespace hostoffload {", LANGUAGE,
     "every header keeps to the library's inline namespace, which names the version in symbols"),
]


def run(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=600)
    return done.returncode, done.stdout


class Bench:
    """A folder that stands for the project: headers of its own, the project's tests."""

    def __init__(self, folder, compiler, library):
        self.folder, self.compiler, self.archive = folder, compiler, library
        (folder / "tests").symlink_to(ROOT / "tests")
        self.fresh()

    def fresh(self):
        shutil.rmtree(self.folder / "include", ignore_errors=True)
        shutil.copytree(ROOT / "include", self.folder / "include")

    def flags(self):
        include = self.folder / "include"
        return ["-std=c++20", "-isystem", include, "-isystem", include / "hostoffload/virtual_gpu/bundled"]

    def build(self, source, *first):
        tests = ROOT / "tests"
        if source == HEADERS:
            unit = self.folder / "unit.cpp"
            unit.write_text("#include <hostoffload/hostoffload.hpp>\n")
            main = self.folder / "main.cpp"
            main.write_text("#include <hostoffload/hostoffload.hpp>\nint main() {}\n")
            return run([self.compiler, *self.flags(), unit, main, self.archive, "-o", self.folder / "program"])
        extra = [f for header in first for f in ("-include", header)]
        return run([self.compiler, *self.flags(), *extra, "-w", "-O0", f"-DHOSTOFFLOAD_TEST_ROOT=\"{self.folder}\"",
                    "-I", tests, tests / source, self.archive, "-lCatch2WithMain", "-pthread", "-o",
                    self.folder / "program"])

    def test(self, source, name):
        """Whether the test passes, and what it said."""
        if source.startswith("compile_fail/"):
            code, text = run(["cmake", f"-Dcompiler={self.compiler}", f"-Dsource={ROOT / 'tests' / source}", "-P",
                              ROOT / "tests/compile_fail/must_not_compile.cmake", "--", *self.flags(),
                              "-fno-diagnostics-show-caret"])
            return code == 0, text
        escaped = name.replace(",", "\\,").replace("[", "\\[")
        code, text = run([self.folder / "program", escaped])
        if "No test cases matched" in text:
            sys.exit(f"{source} has no test \"{name}\"")
        return code == 0, text


def what_it_said(text):
    """The first failed assertion, or the last line of a crash or a compiler."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for i, line in enumerate(lines):
        if line.endswith("FAILED:"):
            return " ".join(lines[i + 1:i + 4])[:160]
    return lines[-1][:160] if lines else "nothing"


def check_texts():
    wrong = 0
    for number, header, text, *_ in MUTATIONS:
        found = (ROOT / "include/hostoffload" / header).read_text().count(text)
        if found != 1:
            print(f"fault {number}: {header} has this text {found} times, not once:\n{text}")
            wrong += 1
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", nargs="?", type=pathlib.Path)
    arguments.add_argument("--only", type=lambda text: {int(n) for n in text.split(",")})
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--compiler", default="g++")
    given = arguments.parse_args()
    wrong = check_texts()
    if given.check or wrong:
        sys.exit(wrong != 0)
    library = next(given.build.rglob("libhostoffload_virtual_gpu.a"), None) if given.build else None
    if library is None:
        arguments.error("BUILD has no libhostoffload_virtual_gpu.a: build the target hostoffload_virtual_gpu there")
    chosen = [m for m in MUTATIONS if given.only is None or m[0] in given.only]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), given.compiler, library)
        for source in dict.fromkeys(m[4] for m in chosen):
            if source.endswith("_test.cpp") or source == HEADERS:
                code, text = bench.build(source)
                if code != 0:
                    sys.exit(f"{source} does not compile:\n{text}")
            for name in dict.fromkeys(m[5] for m in chosen if m[4] == source):
                if source != HEADERS and not bench.test(source, name)[0]:
                    sys.exit(f"{source}: \"{name}\" fails without any mutation")
        for number, header, text, other, source, name, *first in chosen:
            bench.fresh()
            path = bench.folder / "include/hostoffload" / header
            path.write_text(path.read_text().replace(text, other))
            title = f"fault {number}, {header}: {' '.join(text.split())[:70]}"
            passed, said = False, ""
            if source.startswith("compile_fail/"):
                passed, said = bench.test(source, name)
            else:
                code, said = bench.build(source, *first)
                if source == HEADERS:
                    passed = code == 0
                elif code != 0:
                    print(f"{title}\n  DOES NOT COMPILE: {said[:2000]}")
                    wrong += 1
                    continue
                else:
                    passed, said = bench.test(source, name)
            wrong += passed
            print(f"{title}\n  {'SURVIVES: ' + name if passed else 'found: ' + what_it_said(said)}", flush=True)
    print(f"{len(chosen)} mutations, {wrong} not found")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
