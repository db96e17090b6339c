#include <hostoffload/virtual_gpu/detail/detector.hpp>

#include <algorithm>

namespace hostoffload::inline v0::virtual_gpu::detail {
namespace {

std::string bytes_of(std::size_t begin, std::size_t end) {
  return "bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

std::string number(const access& a) { return "call #" + std::to_string(a.call); }

bool of_host(const access& a) { return a.in_lane == host_lane; }

}  // namespace

std::string detector::describe(const access& a) const {
  std::string text = "\"" + texts_.text(a.name) + "\" (";
  if (of_host(a)) return text + "host, " + number(a) + ")";
  return text + std::string(to_string(a.kind)) + ", stream " + std::to_string(a.stream) + ", " + number(a) + ")";
}

std::string detector::describe(const allocation& m) const {
  return texts_.text(m.function) + " of " + std::to_string(m.bytes) + " bytes (call #" + std::to_string(m.call) + ")";
}

void detector::add(finding_kind kind, const access* first, const access& second, const std::string& what,
                   std::string edge) {
  const bool pair = first != nullptr;
  const auto party_of = [](const access& a) { return party{a.name, a.kind, a.stream}; };
  const key k{kind, pair ? party_of(*first) : party{}, party_of(second)};
  if (const auto it = index_.find(k); it != index_.end()) {
    ++found_[it->second].count;
    return;
  }
  if (found_.size() >= most) return;
  index_.emplace(k, found_.size());
  finding f;
  f.kind = kind;
  f.first = pair ? describe(*first) : std::string();
  f.second = describe(second);
  f.message = std::string(to_string(kind)) + ": " + what;
  if (!edge.empty()) f.message += "; " + edge;
  f.missing_edge = std::move(edge);
  found_.push_back(std::move(f));
}

void detector::report(finding_kind kind, const access& a, const std::string& what) {
  add(kind, nullptr, a, describe(a) + " " + what, {});
}

void detector::conflict(finding_kind kind, const access& first, const access& second, const char* relation,
                        const place& where) {
  std::string what = describe(second) + " " + relation + " " + bytes_of(where.begin, where.end) + " of " +
                     describe(where.m) + ", and nothing orders it behind " + describe(first);
  const std::string from = "stream " + std::to_string(first.stream);
  std::string edge;
  if (of_host(second)) {
    edge = "missing: synchronise the host with " + from + " after " + number(first) + " (cudaStreamSynchronize, or " +
           "cudaEventSynchronize on an event recorded there)";
  } else {
    edge = "missing: record an event on " + from + " after " + number(first) + " and let stream " +
           std::to_string(second.stream) + " wait for it before " + number(second);
  }
  add(kind, &first, second, what, std::move(edge));
}

void detector::check_alive(const access& a, const segment& s, const allocation& m) {
  if (s.alive) return;
  report(finding_kind::use_after_free, a,
         "uses " + bytes_of(s.begin, s.end) + " of " + describe(m) + " after that slot was given back");
}

void detector::check_written(const access& a, const segment& s, const allocation& m) {
  if (s.written || !s.alive) return;
  report(finding_kind::uninitialised_read, a,
         "reads " + bytes_of(s.begin, s.end) + " of " + describe(m) +
             ", which nothing has written since they were allocated");
}

void detector::read(const access& a, const vector_clock& clock, allocation& m, std::size_t begin, std::size_t end) {
  m.pieces.each(begin, end, [&](segment& s) {
    check_alive(a, s, m);
    check_written(a, s, m);
    if (!s.write.before(clock)) conflict(finding_kind::race, s.write, a, "reads", {m, s.begin, s.end});
    s.reads.add(a, clock);
  });
}

void detector::write(const access& a, const vector_clock& clock, allocation& m, std::size_t begin, std::size_t end) {
  m.pieces.each_and_merge(begin, end, [&](segment& s) {
    check_alive(a, s, m);
    if (!s.write.before(clock)) conflict(finding_kind::race, s.write, a, "writes", {m, s.begin, s.end});
    for (std::size_t i = 0; i < s.reads.size(); ++i) {
      if (!s.reads[i].before(clock)) conflict(finding_kind::race, s.reads[i], a, "writes", {m, s.begin, s.end});
    }
    s.reads.clear();
    s.write = a;
    s.written = true;
  });
}

void detector::free(const access& a, const vector_clock& clock, allocation& m) {
  m.pieces.each(0, m.bytes, [&](segment& s) {
    const place where{m, s.begin, s.end};
    if (!s.write.before(clock)) conflict(finding_kind::use_after_free, s.write, a, "frees", where);
    for (std::size_t i = 0; i < s.reads.size(); ++i) {
      if (!s.reads[i].before(clock)) conflict(finding_kind::use_after_free, s.reads[i], a, "frees", where);
    }
  });
}

void detector::host_read(const access& a, const vector_clock& clock, allocation& m, std::size_t begin,
                         std::size_t end) {
  m.pieces.each(begin, end, [&](segment& s) {
    check_alive(a, s, m);
    check_written(a, s, m);
    if (!s.write.before(clock)) conflict(finding_kind::host_access_in_flight, s.write, a, "reads", {m, s.begin, s.end});
  });
}

// Whatever is enqueued later is ordered behind the host, so the write leaves no trace but that it happened.
void detector::host_write(const access& a, const vector_clock& clock, allocation& m, std::size_t begin,
                          std::size_t end) {
  m.pieces.each_and_merge(begin, end, [&](segment& s) {
    const place where{m, s.begin, s.end};
    check_alive(a, s, m);
    if (!s.write.before(clock)) conflict(finding_kind::host_access_in_flight, s.write, a, "writes", where);
    for (std::size_t i = 0; i < s.reads.size(); ++i) {
      if (!s.reads[i].before(clock)) conflict(finding_kind::host_access_in_flight, s.reads[i], a, "writes", where);
    }
    s.reads.clear();
    s.write = access{};
    s.written = true;
  });
}

allocation* detector::locate(const access& a, const void* begin, std::size_t bytes, bool must_exist) {
  allocation* m = memory_.find(begin);
  if (m != nullptr) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(begin) - m->begin);
    if (bytes <= m->bytes - offset) return m;
    report(finding_kind::out_of_bounds, a, "uses " + bytes_of(offset, offset + bytes) + " of " + describe(*m));
    return nullptr;
  }
  if (const auto* former = memory_.find_former(begin)) {
    report(finding_kind::use_after_free, a,
           "uses memory of " + texts_.text(former->function) + " of " + std::to_string(former->bytes) +
               " bytes (call #" + std::to_string(former->call) + ") that was freed by call #" +
               std::to_string(former->freed_call));
  } else if (must_exist) {
    report(finding_kind::out_of_bounds, a,
           "uses " + std::to_string(bytes) + " bytes that are in no allocation of the device and in no pinned memory");
  }
  return nullptr;
}

void detector::taken(allocation& m, std::size_t begin, std::size_t end) {
  m.pieces.each(begin, end, [](segment& s) {
    s.alive = true;
    s.written = false;
  });
}

void detector::given_back(allocation& m, std::size_t begin, std::size_t end) {
  m.pieces.each(begin, end, [](segment& s) { s.alive = false; });
}

void detector::clear() {
  found_.clear();
  index_.clear();
}

}  // namespace hostoffload::inline v0::virtual_gpu::detail
