// task, when_all, the loop and the frame pool, without CUDA.

#include "catch.hpp"

#include <hostoffload/coroutine/when_all.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ho = hostoffload;

namespace {

template <class T>
T run(ho::task<T> root) {
  ho::detail::loop loop;
  ho::detail::branch line;
  auto& promise = ho::detail::task_access::promise(root);
  promise.line = &line;
  loop.run(promise, [] { throw std::logic_error("every coroutine waits"); });
  return promise.take();
}

ho::task<int> value(int v) { co_return v; }

ho::task<> add(std::string& log, std::string text) {
  log += text;
  co_return;
}

ho::task<> fails(std::string text) {
  const int v = co_await value(1);
  if (v == 1) throw std::runtime_error(text);
}

struct counted {
  explicit counted(int& alive) : alive_(&alive) { ++*alive_; }
  counted(counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  counted(const counted&) = delete;
  counted& operator=(counted&&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --*alive_; }
  int* alive_;
};

}  // namespace

TEST_CASE("a task hands on its value") {
  const auto sum = []() -> ho::task<int> {
    int total = 0;
    for (int i = 1; i <= 4; ++i) {
      const int v = co_await value(i);
      total += v;
    }
    co_return total;
  };
  CHECK(run(sum()) == 10);
}

TEST_CASE("a task hands on a value that can only be moved") {
  const auto make = []() -> ho::task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  const auto outer = [&]() -> ho::task<int> {
    auto made = co_await make();
    co_return *made;
  };
  CHECK(run(outer()) == 7);
}

TEST_CASE("a task that nobody awaits does nothing and is destroyed") {
  std::string log;
  { const ho::task<> never = add(log, "x"); }
  CHECK(log.empty());
}

TEST_CASE("an exception reaches whoever awaits, and can be caught there") {
  const auto outer = []() -> ho::task<std::string> {
    std::string seen;
    try {
      co_await fails("first");
    } catch (const std::runtime_error& e) {
      seen = e.what();
    }
    co_await fails("second");
    co_return seen;
  };
  CHECK_THROWS_WITH(run(outer()), "second");
}

TEST_CASE("a million ready awaits need no stack") {
  const auto outer = []() -> ho::task<long> {
    long total = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      const int v = co_await value(1);
      total += v;
    }
    co_return total;
  };
  CHECK(run(outer()) == 1'000'000);
}

TEST_CASE("a chain of ten thousand nested awaits needs no stack") {
  struct nest {
    static ho::task<int> down(int depth) {
      if (depth == 0) co_return 0;
      const int below = co_await down(depth - 1);
      co_return below + 1;
    }
  };
  CHECK(run(nest::down(10'000)) == 10'000);
}

TEST_CASE("when_all runs all its tasks in the order given, each in its own order") {
  std::string log;
  const auto outer = [&]() -> ho::task<> {
    co_await ho::when_all(add(log, "a"), add(log, "b"), add(log, "c"));
    std::vector<ho::task<>> more;
    more.push_back(add(log, "d"));
    more.push_back(add(log, "e"));
    co_await ho::when_all(std::move(more));
    co_await ho::when_all(std::vector<ho::task<>>{});
    log += "!";
  };
  run(outer());
  CHECK(log == "abcde!");
}

TEST_CASE("when_all waits for all before it throws the first failure") {
  std::string log;
  const auto outer = [&]() -> ho::task<> { co_await ho::when_all(fails("one"), add(log, "still runs"), fails("two")); };
  CHECK_THROWS_WITH(run(outer()), "one");
  CHECK(log == "still runs");
}

TEST_CASE("branches: the older one is the one that would run first alone") {
  using ho::detail::branch;
  const auto below = [](branch& parent, std::uint64_t order) {
    branch b;
    b.parent = &parent;
    b.order = order;
    return b;
  };
  branch root;
  branch first = below(root, 0);
  branch second = below(root, 1);
  branch in_first = below(first, 5);
  CHECK(ho::detail::older(first, second));
  CHECK_FALSE(ho::detail::older(second, first));
  CHECK(ho::detail::older(in_first, second));
  CHECK(ho::detail::older(first, in_first));
  CHECK_FALSE(ho::detail::older(in_first, first));
  CHECK(ho::detail::older(root, in_first));
}

TEST_CASE("the forms of await that the README allows destroy what they hold exactly once") {
  int alive = 0;
  const auto make = [&]() -> ho::task<counted> { co_return counted(alive); };
  const auto outer = [&]() -> ho::task<> {
    {
      auto bound = co_await make();
      CHECK(alive == 1);
      const std::pair<counted, int> in_pair(std::move(bound), 1);
      CHECK(alive == 2);
    }
    CHECK(alive == 0);
    auto task_first = make();
    auto bound_later = co_await task_first;
    CHECK(alive == 2);  // the value here and the one moved from, in the frame
    auto closure = [&]() -> ho::task<> {
      auto inner = co_await make();
      static_cast<void>(inner);
    };
    co_await closure();
  };
  run(outer());
  CHECK(alive == 0);
}

TEST_CASE("a task destroyed while it is suspended ends what its frame holds") {
  int alive = 0;
  struct never {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };
  const auto inner = [&]() -> ho::task<> {
    const counted held(alive);
    co_await never{};
  };
  const auto outer = [&]() -> ho::task<> {
    const counted held(alive);
    co_await inner();
  };
  CHECK_THROWS_WITH(run(outer()), "every coroutine waits");
  CHECK(alive == 0);
}

TEST_CASE("frames are recycled per thread, and may end on another one") {
  long total = 0;
  const auto work = [&total](int n) -> ho::task<> {
    for (int i = 0; i < n; ++i) {
      const int v = co_await value(1);
      total += v;
    }
  };
  std::vector<ho::task<>> made_here;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) made_here.push_back(work(1));
    run(work(1000));
  });
  other.join();
  for (auto& t : made_here) run(std::move(t));
  made_here.clear();
  CHECK(total == 1100);
}
