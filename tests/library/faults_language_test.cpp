// Faults of the language's kind: lifetimes, moves, order of resumption, linking. And the table of all faults in
// tests/README.md, whose tests have to exist.

#include "gpu.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <hostoffload/virtual_gpu/faults.hpp>

using namespace ho::literals;

namespace {

enum class name { x, y };
using x_tensor = ho::offload_tensor<float, ho::any_placement<name::x>>;
using y_tensor = ho::offload_tensor<float, ho::any_placement<name::y>>;

constexpr std::size_t n = 64;
const std::filesystem::path root = HOSTOFFLOAD_TEST_ROOT;

std::string text_of(const std::filesystem::path& file) {
  const std::ifstream in(file);
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           folder, std::filesystem::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file()) found.push_back(entry.path());
  }
  return found;
}

/// A capture that notes when it is used after its end.
class tracked {
public:
  tracked() { living().insert(this); }
  tracked(const tracked&) : tracked() {}
  tracked& operator=(const tracked&) = delete;
  ~tracked() { living().erase(this); }
  void use() const { (living().contains(this) ? used : used_dead)++; }
  static inline int used = 0, used_dead = 0;

private:
  static std::set<const tracked*>& living() {
    static std::set<const tracked*> all;
    return all;
  }
};

[[gnu::noinline]] std::uintptr_t stack_depth() { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); }

std::size_t owned() {
  std::size_t sum = 0;
  for (const vg::finding& f : vg::leaks()) sum += f.count;
  return sum;
}

/// Of two owners one is assigned to the other, then to itself, then moved into a third: one thing is left each time.
template <class Owner, class Count>
void check_moves(Owner a, Owner b, const Count& count) {
  const std::size_t two = count();
  b = std::move(a);
  CHECK(count() == two - 1);
  Owner& same = b;
  b = std::move(same);
  CHECK(count() == two - 1);
  {
    const Owner c(std::move(b));
    CHECK(count() == two - 1);
  }
  CHECK(count() == two - 2);
}

ho::task<> hold(std::shared_ptr<int> held) {
  static_cast<void>(held);
  co_return;
}

}  // namespace

TEST_CASE("a scheduler of static lifetime ends quietly when the device is gone") {
  vg::reset(vg::gb200());
  static ho::prefetch_scheduler scheduler({.window = 4_KiB});
  static x_tensor t(scheduler, n, {}, ho::choice::offload);
  ho::step s(scheduler);
  {
    auto out = t.produce(nullptr);
    fill(nullptr, out.data(), n, 1);
  }
  s.end();
  vg::fail_call(1, cudaErrorIllegalAddress);  // sticky: from now on every call fails, as after the runtime's end
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  // The rest happens at the program's end: a crash there is a failure.
}

TEST_CASE("nothing of static lifetime in the headers but the frames of a thread") {
  for (const auto& file : files(root / "include" / "hostoffload")) {
    if (file.extension() != ".hpp" || file.string().find("virtual_gpu") != std::string::npos) continue;
    std::istringstream lines(text_of(file));
    for (std::string line; std::getline(lines, line);) {
      const auto has = [&line](const char* word) { return line.find(word) != std::string::npos; };
      if (file.filename() == "frame_pool.hpp" && has("thread_local")) continue;
      INFO(file << ": " << line);
      CHECK_FALSE(has("thread_local"));
      if (has("static ") || line.rfind("inline ", 0) == 0) {  // a function, a constant or a namespace
        CHECK((has("(") || has("constexpr") || has("namespace") || has("operator")));
      }
    }
  }
}

TEST_CASE("nobody is resumed from within an await: the stack is as deep before as after") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor input(scheduler, n, {}, ho::choice::save);
  input.define([](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 1);
    co_return;
  });
  std::vector<std::uintptr_t> in_outer, in_inner;  // each in its own function
  const auto inner = [&]() -> ho::task<> {
    in_inner.push_back(stack_depth());
    auto in = co_await input;
    in_inner.push_back(stack_depth());
  };
  const auto outer = [&]() -> ho::task<> {
    in_outer.push_back(stack_depth());
    co_await inner();
    in_outer.push_back(stack_depth());
    co_await ho::when_all(inner(), inner());
    in_outer.push_back(stack_depth());
  };
  scheduler.run(outer);
  CHECK(in_outer == std::vector<std::uintptr_t>(3, in_outer.at(0)));
  CHECK(in_inner == std::vector<std::uintptr_t>(6, in_inner.at(0)));
}

TEST_CASE("a step abandoned while its coroutines are suspended ends their leases and enqueues nothing more") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor t(scheduler, n, {}, ho::choice::offload);
  x_tensor back(scheduler, n, {}, ho::choice::offload);
  const auto stuck = [&]() -> ho::task<> {
    {
      auto out = back.produce(nullptr);
      fill(nullptr, out.data(), n, 1);
    }
    auto out = t.produce(nullptr);
    fill(nullptr, out.data(), n, 1);
    auto in = co_await std::move(back);  // the backward pass: the end of a lease records an event
    vg::reset_call_counts();
    co_await std::suspend_always{};
  };
  const auto outer = [&]() -> ho::task<> { co_await ho::when_all(stuck()); };
  CHECK_THROWS_AS(scheduler.run(outer), ho::usage_error);
  CHECK(vg::bytes_copied(vg::direction::to_host).copies == 0);
  CHECK(vg::calls("cudaEventRecord") == 0);
  ho::step s(scheduler);
  auto out = t.produce(nullptr);
  fill(nullptr, out.data(), n, 2);
  out.end();
  s.end();
}

TEST_CASE("the captures of define functions and of the step live as long as their coroutines") {
  gpu device;
  ho::prefetch_scheduler scheduler({.window = 0, .observer = watched});
  x_tensor input(scheduler, n, {}, ho::choice::remat);
  y_tensor t(scheduler, n, {}, ho::choice::remat);
  tracked::used = tracked::used_dead = 0;
  input.define([](std::span<float> out) -> ho::task<> {
    fill(nullptr, out.data(), out.size(), 1);
    co_return;
  });
  t.define([token = tracked(), &input](std::span<float> out) -> ho::task<> {
    token.use();
    auto in = co_await input;
    token.use();
    add(nullptr, in.data(), in.data(), out.data(), out.size());
  });
  scheduler.run([token = tracked(), &t]() -> ho::task<> {
    token.use();
    { auto in = co_await t; }
    token.use();
    auto in = co_await std::move(t);
    token.use();
  });
  CHECK(tracked::used == 3 + 2 * 2);
  CHECK(tracked::used_dead == 0);
}

TEST_CASE("owners that are moved leave one owner: assigned, to themselves, into a new one") {
  gpu device;
  check_moves(ho::stream(), ho::stream(), owned);
  check_moves(ho::event(), ho::event(), owned);
  check_moves(ho::device_allocation(256), ho::device_allocation(512), owned);
  check_moves(ho::pinned_allocation(256), ho::pinned_allocation(512), owned);
  {
    const ho::stream captured;
    const auto graph = [&captured] {
      REQUIRE(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      return ho::executable_graph::end_capture(captured.get());
    };
    check_moves(graph(), graph(), owned);
  }

  const auto frames = std::make_shared<int>();
  check_moves(hold(frames), hold(frames), [&frames] { return static_cast<std::size_t>(frames.use_count() - 1); });

  ho::prefetch_scheduler scheduler({.window = 4_KiB, .observer = watched});
  x_tensor x(scheduler, n, {0, 2}, ho::choice::offload);
  x_tensor y(scheduler, n, {1, 2}, ho::choice::offload);
  ho::step s(scheduler);
  const auto held = [] { return 2 - vg::bytes_copied(vg::direction::to_host).copies; };  // one leaves as its lease ends
  check_moves(x.produce(nullptr), y.produce(nullptr), held);
  { auto in = x.fetch(nullptr); }
  CHECK_NOTHROW(s.end());
  vg::clear_findings();  // what was never written was copied out
}

TEST_CASE("every header keeps to the library's inline namespace, which names the version in symbols") {
  for (const auto& file : files(root / "include" / "hostoffload")) {
    const std::string text = file.extension() == ".hpp" ? text_of(file) : std::string();
    if (text.find("namespace ") == std::string::npos) continue;
    INFO(file);
    CHECK(text.find("namespace hostoffload::inline v0") != std::string::npos);
    CHECK(text.find("namespace hostoffload {") == std::string::npos);
    CHECK(text.find("namespace hostoffload::detail") == std::string::npos);
  }
}

TEST_CASE("the table of faults in tests/README.md names tests that exist, and has every fault") {
  std::string sources;
  for (const auto& file : files(root / "tests")) {
    if (file.extension() == ".cpp" || file.filename() == "CMakeLists.txt") sources += text_of(file);
  }
  std::string joined;  // literals that stand on two lines become one
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == '"' && i + 1 < sources.size() && sources[i + 1] == '\n') {
      const std::size_t next = sources.find_first_not_of(" \n", i + 1);
      if (next != std::string::npos && sources[next] == '"') {
        i = next;
        continue;
      }
    }
    joined += sources[i];
  }
  const std::string readme = text_of(root / "tests" / "README.md");
  const std::size_t begin = readme.find("\n## Faults\n");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(readme.substr(begin + 1, readme.find("\n## ", begin + 1) - begin - 1));
  std::set<int> numbers;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 3 || line[0] != '|' || line[2] < '0' || line[2] > '9') continue;
    INFO(line);
    numbers.insert(std::stoi(line.substr(2)));
    const std::size_t second = line.find('|', 1);
    const std::size_t third = line.find('|', second + 1);
    REQUIRE(third != std::string::npos);
    REQUIRE(line.find_first_not_of(" |", third) != std::string::npos);
    std::istringstream cell(line.substr(second, third - second));
    std::string part;
    std::size_t tests = 0;
    for (bool is_name = false; std::getline(cell, part, '`'); is_name = !is_name) {
      if (!is_name) continue;
      ++tests;
      INFO("test: " << part);
      const std::string compile_fail = "compile_fail: ";
      if (part.rfind(compile_fail, 0) == 0) {
        CHECK(std::filesystem::exists(root / "tests" / "compile_fail" / (part.substr(compile_fail.size()) + ".cpp")));
        continue;
      }
      const bool is_case = joined.find("TEST_CASE(\"" + part + "\"") != std::string::npos ||
                           joined.find("TEST_CASE(\n    \"" + part + "\"") != std::string::npos;
      CHECK((is_case || joined.find("NAME \"" + part + "\"") != std::string::npos));
    }
    CHECK(tests > 0);
  }
  std::set<int> expected;
  for (int number = 1; number <= 38; ++number) expected.insert(number);
  CHECK(numbers == expected);
}
