#pragma once
// Recorded steps as files, so that a step seen on one machine is planned for on another. Text, one thing a line:
//
//   hostoffload record 3
//   link out RATE RATE_WHILE_BOTH LATENCY IDLE     or: link out unseen
//   link in RATE RATE_WHILE_BOTH LATENCY IDLE
//   wait LATENCY          where the compute stream waited for copies
//   segments N            and N lines of seconds
//   lives N               and N lines: placement layer bytes tensor defined|produced ended|kept uses (begin end)… name
//   makings N             and N lines: first|again begin end makes (life)… inputs (life at)…
//   end
//
// What each means stands in recorded_step.hpp. A life that was produced cannot be made again.

#include <hostoffload/schedule/record_checks.hpp>
#include <hostoffload/schedule/record_reader.hpp>
#include <hostoffload/schedule/recorded_step.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hostoffload::inline v0 {

namespace detail {

inline constexpr std::string_view record_title = "hostoffload record 3";

/// The shortest text that is read as the same number.
inline std::string exact(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

inline constexpr std::array<std::string_view, 3> placement_words{"save", "offload", "remat"};
inline constexpr std::array<std::string_view, 2> origin_words{"produced", "defined"};
inline constexpr std::array<std::string_view, 2> end_words{"kept", "ended"};
inline constexpr std::array<std::string_view, 2> making_words{"first", "again"};

/// Lives that a making made first.
inline std::vector<bool> defined_lives(const recorded_step& step) {
  std::vector<bool> defined(step.lives.size(), false);
  for (const recorded_making& m : step.makings) {
    for (const std::uint32_t life : m.makes) defined.at(life) = defined.at(life) || !m.again;
  }
  return defined;
}

inline void read_link(record_reader& reader, std::string_view which, link_direction& d) {
  reader.next_line();
  reader.expect("link");
  reader.expect(which);
  if (reader.takes("unseen")) return;
  d.rate = reader.number<double>("bytes per second");
  d.rate_while_both = reader.number<double>("bytes per second");
  d.latency_s = reader.number<double>("seconds");
  d.idle_s = reader.number<double>("seconds");
  reader.end_of_line();
  if (const problem_text wrong = link_problem(d)) throw reader.wrong("the link " + *wrong);
}

inline recorded_life read_life(record_reader& reader, bool& defined) {
  recorded_life l;
  l.placed = static_cast<choice>(reader.one_of(placement_words));
  l.layer = reader.number<std::size_t>("a layer");
  l.bytes = reader.number<std::size_t>("bytes");
  l.tensor = reader.number<std::uint32_t>("a number of the tensor");
  defined = reader.one_of(origin_words) != 0;
  l.ended = reader.one_of(end_words) != 0;
  const auto uses = reader.number<std::uint32_t>("a count of uses");
  for (std::uint32_t u = 0; u < uses; ++u) {
    recorded_use use;
    use.begin = reader.number<std::uint32_t>("a point");
    use.end = reader.number<std::uint32_t>("a point");
    l.uses.push_back(use);
  }
  l.name = reader.rest();
  return l;
}

inline void check_life(const record_reader& reader, const recorded_step& step, const recorded_life& l) {
  problem_text wrong = life_problem(l, step.segment_s.size());
  const auto before = std::find_if(step.lives.rbegin(), step.lives.rend(),
                                   [&l](const recorded_life& other) { return other.tensor == l.tensor; });
  if (!wrong && before != step.lives.rend()) wrong = same_tensor_problem(*before, l);
  if (wrong) throw reader.wrong(title(l) + " " + *wrong);
}

inline recorded_making read_making(record_reader& reader) {
  recorded_making m;
  m.again = reader.one_of(making_words) != 0;
  m.begin = reader.number<std::uint32_t>("a point");
  m.end = reader.number<std::uint32_t>("a point");
  const auto makes = reader.number<std::uint32_t>("a count of lives");
  for (std::uint32_t i = 0; i < makes; ++i) m.makes.push_back(reader.number<std::uint32_t>("a life"));
  const auto inputs = reader.number<std::uint32_t>("a count of inputs");
  for (std::uint32_t i = 0; i < inputs; ++i) {
    recorded_input input;
    input.life = reader.number<std::uint32_t>("a life");
    input.at = reader.number<std::uint32_t>("a point");
    m.inputs.push_back(input);
  }
  reader.end_of_line();
  return m;
}

}  // namespace detail

inline void write_record(std::ostream& out, const recorded_step& step) {
  const auto link = [&](std::string_view which, const link_direction& d) {
    out << "link " << which << ' ';
    if (d.rate > 0) {
      out << detail::exact(d.rate) << ' ' << detail::exact(d.rate_while_both) << ' ' << detail::exact(d.latency_s)
          << ' ' << detail::exact(d.idle_s);
    } else {
      out << "unseen";
    }
    out << '\n';
  };
  out << detail::record_title << '\n';
  link("out", step.out);
  link("in", step.in);
  if (step.wait_latency_s > 0) out << "wait " << detail::exact(step.wait_latency_s) << '\n';
  out << "segments " << step.segment_s.size() << '\n';
  for (const double s : step.segment_s) out << detail::exact(s) << '\n';
  out << "lives " << step.lives.size() << '\n';
  const std::vector<bool> defined = detail::defined_lives(step);
  for (std::size_t i = 0; i < step.lives.size(); ++i) {
    const recorded_life& l = step.lives[i];
    out << to_string(l.placed) << ' ' << l.layer << ' ' << l.bytes << ' ' << l.tensor << ' '
        << detail::origin_words[defined[i] ? 1 : 0] << ' ' << detail::end_words[l.ended ? 1 : 0] << ' '
        << l.uses.size();
    for (const recorded_use& u : l.uses) out << ' ' << u.begin << ' ' << u.end;
    out << ' ' << l.name << '\n';
  }
  out << "makings " << step.makings.size() << '\n';
  for (const recorded_making& m : step.makings) {
    out << detail::making_words[m.again ? 1 : 0] << ' ' << m.begin << ' ' << m.end << ' ' << m.makes.size();
    for (const std::uint32_t life : m.makes) out << ' ' << life;
    out << ' ' << m.inputs.size();
    for (const recorded_input& i : m.inputs) out << ' ' << i.life << ' ' << i.at;
    out << '\n';
  }
  out << "end\n";
}

/// `file` is what errors call it. Throws usage_error, with the line, for anything but a record of this version that
/// agrees with itself.
[[nodiscard]] inline recorded_step read_record(std::istream& in, std::string_view file) {
  detail::record_reader reader(in, file);
  recorded_step step;
  reader.next_line();
  if (reader.takes("hostoffload record 1"))
    throw reader.wrong("a record of version 1 does not say how tensors are made: record the step again");
  if (reader.takes("hostoffload record 2"))
    throw reader.wrong("a record of version 2 does not say how an idle link starts: record the step again");
  if (!reader.takes(detail::record_title)) throw reader.wrong("expected \"" + std::string(detail::record_title) + "\"");
  detail::read_link(reader, "out", step.out);
  detail::read_link(reader, "in", step.in);
  if ((step.out.rate > 0) != (step.in.rate > 0)) throw reader.wrong("both ways of the link are unseen, or none is");
  if (reader.comes('w')) {
    reader.next_line();
    reader.expect("wait");
    step.wait_latency_s = reader.number<double>("seconds");
    reader.end_of_line();
    if (const auto wrong = detail::wait_problem(step.wait_latency_s)) throw reader.wrong("the wait " + *wrong);
  }
  for (std::uint32_t n = reader.count_of("segments"); n > 0; --n) {
    reader.next_line();
    step.segment_s.push_back(reader.number<double>("seconds"));
    reader.end_of_line();
    if (const auto wrong = detail::segment_problem(step.segment_s.back())) throw reader.wrong("the segment " + *wrong);
  }
  std::vector<bool> defined;
  std::size_t bytes = 0;
  const std::uint32_t lives = reader.count_of("lives");
  const std::size_t first_life = reader.line_number() + 1;
  for (std::uint32_t i = 0; i < lives; ++i) {
    reader.next_line();
    bool is_defined = false;
    recorded_life l = detail::read_life(reader, is_defined);
    detail::check_life(reader, step, l);
    bytes += l.bytes;
    if (const auto wrong = detail::sum_problem(bytes)) throw reader.wrong(*wrong);
    defined.push_back(is_defined);
    step.lives.push_back(std::move(l));
  }
  detail::making_check check(step);
  for (std::uint32_t n = reader.count_of("makings"); n > 0; --n) {
    reader.next_line();
    step.makings.push_back(detail::read_making(reader));
    if (const auto wrong = check.next(step.makings.back())) throw reader.wrong("the making " + *wrong);
  }
  reader.next_line();
  if (!reader.takes("end")) throw reader.wrong("expected \"end\"");
  reader.end_of_file();
  for (std::size_t i = 0; i < defined.size(); ++i) {
    if (defined[i] == check.is_defined(i)) continue;
    throw reader.wrong_at(first_life + i,
                          detail::title(step.lives[i]) + (defined[i] ? " is defined, and no making makes it first"
                                                                     : " is produced, and a making makes it first"));
  }
  return step;
}

}  // namespace hostoffload::inline v0
