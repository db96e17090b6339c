#pragma once
// Recorded steps as files, so that a step seen on one machine is planned for on another. Text, one thing a line:
//
//   hostoffload record 1
//   link out RATE RATE_WHILE_BOTH LATENCY
//   link in RATE RATE_WHILE_BOTH LATENCY
//   segments N            and N lines of seconds
//   lives N               and N lines: placement layer bytes uses (begin end)… name
//   end

#include <hostoffload/errors.hpp>
#include <hostoffload/schedule/prepared_step.hpp>
#include <hostoffload/schedule/recorded_step.hpp>

#include <charconv>
#include <cstddef>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

namespace hostoffload::inline v0 {

namespace detail {

inline constexpr std::string_view record_title = "hostoffload record 1";

/// Lines of a record and the words in them; errors name the file and the line.
class record_reader {
public:
  record_reader(std::istream& in, std::string_view file) : in_(in), file_(file) {}

  void next_line() {
    ++number_;
    if (!std::getline(in_, line_)) throw wrong("the file ends too soon");
    rest_ = line_;
  }
  void expect(std::string_view word) {
    if (next_word() != word) throw wrong("expected \"" + std::string(word) + "\"");
  }
  void expect_line(std::string_view whole) {
    next_line();
    if (line_ != whole) throw wrong("expected \"" + std::string(whole) + "\"");
  }
  template <class Number>
  [[nodiscard]] Number number(std::string_view what) {
    const std::string_view word = next_word();
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size())
      throw wrong("expected " + std::string(what) + ", found \"" + std::string(word) + "\"");
    return value;
  }
  [[nodiscard]] choice placement() {
    const std::string_view word = next_word();
    for (const choice c : {choice::save, choice::offload, choice::remat}) {
      if (word == to_string(c)) return c;
    }
    throw wrong("expected save, offload or remat, found \"" + std::string(word) + "\"");
  }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  void end_of_line() {
    if (!rest_.empty()) throw wrong("unexpected \"" + std::string(rest_) + "\"");
  }
  void end_of_file() {
    ++number_;
    if (std::getline(in_, line_)) throw wrong("unexpected text behind the end");
  }

private:
  std::string_view next_word() {
    const std::size_t space = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, space);
    rest_.remove_prefix(std::min(space + 1, rest_.size()));
    return word;
  }
  [[nodiscard]] usage_error wrong(const std::string& what) const {
    return usage_error(file_ + ":" + std::to_string(number_) + ": " + what);
  }

  std::istream& in_;
  std::string file_;
  std::string line_;
  std::string_view rest_;
  std::size_t number_ = 0;
};

/// The shortest text that is read as the same number.
inline std::string exact(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace detail

inline void write_record(std::ostream& out, const recorded_step& step) {
  const auto link = [&](std::string_view which, const link_direction& d) {
    out << "link " << which << ' ' << detail::exact(d.rate) << ' ' << detail::exact(d.rate_while_both) << ' '
        << detail::exact(d.latency_s) << '\n';
  };
  out << detail::record_title << '\n';
  link("out", step.out);
  link("in", step.in);
  out << "segments " << step.segment_s.size() << '\n';
  for (const double s : step.segment_s) out << detail::exact(s) << '\n';
  out << "lives " << step.lives.size() << '\n';
  for (const recorded_life& l : step.lives) {
    out << to_string(l.placed) << ' ' << l.layer << ' ' << l.bytes << ' ' << l.uses.size();
    for (const recorded_use& u : l.uses) out << ' ' << u.begin << ' ' << u.end;
    out << ' ' << l.name << '\n';
  }
  out << "end\n";
}

/// `file` is what errors call it. Throws usage_error, with the line, for anything but a record of this version that
/// agrees with itself.
[[nodiscard]] inline recorded_step read_record(std::istream& in, std::string_view file) {
  detail::record_reader reader(in, file);
  recorded_step step;
  reader.expect_line(detail::record_title);
  for (const auto& [which, d] : {std::pair{"out", &step.out}, std::pair{"in", &step.in}}) {
    reader.next_line();
    reader.expect("link");
    reader.expect(which);
    d->rate = reader.number<double>("bytes per second");
    d->rate_while_both = reader.number<double>("bytes per second");
    d->latency_s = reader.number<double>("seconds");
    reader.end_of_line();
  }
  reader.next_line();
  reader.expect("segments");
  const auto segments = reader.number<std::uint32_t>("a count");
  reader.end_of_line();
  for (std::uint32_t i = 0; i < segments; ++i) {
    reader.next_line();
    step.segment_s.push_back(reader.number<double>("seconds"));
    reader.end_of_line();
  }
  reader.next_line();
  reader.expect("lives");
  const auto lives = reader.number<std::uint32_t>("a count");
  reader.end_of_line();
  for (std::uint32_t i = 0; i < lives; ++i) {
    reader.next_line();
    recorded_life l;
    l.placed = reader.placement();
    l.layer = reader.number<std::size_t>("a layer");
    l.bytes = reader.number<std::size_t>("bytes");
    const auto uses = reader.number<std::uint32_t>("a count of uses");
    for (std::uint32_t u = 0; u < uses; ++u) {
      recorded_use use;
      use.begin = reader.number<std::uint32_t>("a point");
      use.end = reader.number<std::uint32_t>("a point");
      l.uses.push_back(use);
    }
    l.name = reader.rest();
    step.lives.push_back(std::move(l));
  }
  reader.expect_line("end");
  reader.end_of_file();
  try {
    const detail::prepared_step checked(step);
  } catch (const usage_error& e) {
    throw usage_error(std::string(file) + ": " + e.what());
  }
  return step;
}

}  // namespace hostoffload::inline v0
