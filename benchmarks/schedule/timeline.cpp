#include "timeline.hpp"

#include <hostoffload/virtual_gpu/kernel.h>
#include <hostoffload/cuda/error.hpp>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace schedules {
namespace {

namespace ho = hostoffload;
using vgpu::operation_kind;

constexpr double flop_rate = 1e12;   // of fp32, see machine_for
constexpr double held_back_s = 100;  // longer than the host needs for any step

void launch(cudaStream_t stream, const std::string& name, double seconds, const std::vector<hostoffload_range>& reads,
            const std::vector<hostoffload_range>& writes) {
  hostoffload_kernel k{};
  k.name = name.c_str();
  k.reads = reads.data();
  k.read_count = reads.size();
  k.writes = writes.data();
  k.write_count = writes.size();
  k.flops = seconds * flop_rate;
  k.precision = hostoffload_fp32;
  ho::detail::check(hostoffload_launch(stream, &k), "hostoffload_launch", {name, 0, {}});
}

std::string label(const tensor& t) {
  return t.name + " layer " + std::to_string(t.layer) + " micro batch " + std::to_string(t.micro_batch);
}
std::string label(const segment& s, std::size_t index) {
  return std::string(to_string(s.of)) + " segment " + std::to_string(index) + " layer " + std::to_string(s.layer) +
         " micro batch " + std::to_string(s.micro_batch);
}

/// Which tensor a copy moves. A copy out reads what the last segment enqueued before it has made at that address; a
/// copy in reads what that copy out wrote.
class copies {
public:
  copies(const workload& w, const std::vector<const void*>& made_at) : w_(w) {
    for (std::size_t i = 0; i < made_at.size(); ++i) at_[made_at[i]].push_back(i);
  }
  std::size_t out(const vgpu::operation& o, const std::vector<std::uint64_t>& call_of_segment) {
    std::optional<std::size_t> found;
    for (const std::size_t i : at_[o.from]) {
      const std::size_t made = w_.tensors[i].made_in;
      if (call_of_segment[made] < o.call && (!found || made > w_.tensors[*found].made_in)) found = i;
    }
    if (!found) throw std::runtime_error("a copy out of memory that no segment has written");
    on_host_[o.to] = *found;
    return *found;
  }
  std::size_t in(const vgpu::operation& o) const {
    const auto found = on_host_.find(o.from);
    if (found == on_host_.end()) throw std::runtime_error("a copy in of memory that no copy out has written");
    return found->second;
  }

private:
  const workload& w_;
  std::unordered_map<const void*, std::vector<std::size_t>> at_;
  std::unordered_map<const void*, std::size_t> on_host_;
};

}  // namespace

void begin_timeline(cudaStream_t compute) {
  ho::detail::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  vgpu::clear_timeline();
  launch(compute, "hold back", held_back_s, {}, {});
}

void launch_segment(const workload& w, const accesses& a, std::size_t index, const std::vector<const void*>& at,
                    cudaStream_t compute) {
  std::vector<hostoffload_range> reads, writes;
  for (const std::size_t i : a.used[index]) reads.push_back({at[i], w.tensors[i].bytes});
  for (const std::size_t i : a.made[index]) writes.push_back({at[i], w.tensors[i].bytes});
  launch(compute, std::string(to_string(w.segments[index].of)), w.segments[index].seconds, reads, writes);
}

step_timeline end_timeline(const workload& w, const std::vector<const void*>& made_at) {
  ho::detail::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const auto findings = vgpu::findings();
  if (!findings.empty()) throw std::runtime_error("the virtual GPU objects: " + findings.front().message);

  std::vector<vgpu::operation> all = vgpu::timeline();
  step_timeline t;
  t.out.resize(w.tensors.size());
  t.in.resize(w.tensors.size());
  std::vector<std::uint64_t> call_of_segment;
  double zero = 0;
  std::vector<std::pair<std::uint64_t, std::size_t>> copies_out;
  std::vector<std::pair<std::uint64_t, double>> records;
  std::vector<std::string> names(all.size());
  bool held_back = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const vgpu::operation& o = all[i];
    if (o.kind == operation_kind::record) records.emplace_back(o.call, o.end);
    if (o.kind == operation_kind::copy_to_host) copies_out.emplace_back(o.call, i);
    if (o.kind != operation_kind::kernel) continue;
    if (!std::exchange(held_back, true)) {
      zero = o.end;
      names[i] = o.name;
      continue;
    }
    names[i] = label(w.segments.at(t.segments.size()), t.segments.size());
    t.segments.push_back({o.start - zero, o.end - zero});
    call_of_segment.push_back(o.call);
  }
  if (t.segments.size() != w.segments.size()) {
    throw std::runtime_error(std::to_string(t.segments.size()) + " of " + std::to_string(w.segments.size()) +
                             " segments of " + w.name + " were stepped");
  }
  t.step_s = t.segments.back().end;

  std::sort(records.begin(), records.end());
  for (const auto& [call, at] : records) t.marks.push_back(at - zero);
  copies which(w, made_at);
  std::sort(copies_out.begin(), copies_out.end());
  for (const auto& [call, i] : copies_out) {
    const std::size_t moved = which.out(all[i], call_of_segment);
    names[i] = "copy out " + label(w.tensors[moved]);
    t.out[moved] = interval{all[i].start - zero, all[i].end - zero};
  }
  std::unordered_map<std::uint64_t, std::uint64_t> last_of_stream;  // operations of a stream complete in its order
  t.operations.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const vgpu::operation& o = all[i];
    if (o.kind == operation_kind::copy_to_device) {
      const std::size_t moved = which.in(o);
      names[i] = "copy in " + label(w.tensors[moved]);
      t.in[moved] = interval{o.start - zero, o.end - zero};
    }
    operation done{o.call,
                   names[i].empty() ? std::string(to_string(o.kind)) : names[i],
                   std::string(to_string(o.uses)),
                   o.stream,
                   o.start - zero,
                   o.end - zero,
                   o.bytes,
                   {}};
    if (const auto last = last_of_stream.find(o.stream); last != last_of_stream.end()) {
      done.behind.push_back(last->second);
    }
    if (o.waits_for != 0) done.behind.push_back(o.waits_for);
    last_of_stream[o.stream] = o.call;
    t.operations.push_back(std::move(done));
  }
  return t;
}

std::vector<residency> accessed(const workload& w, const step_timeline& t) {
  std::vector<residency> all;
  for (std::size_t i = 0; i < w.tensors.size(); ++i) {
    const double begin = t.segments[w.tensors[i].made_in].begin;
    const double end = t.segments[w.tensors[i].used_in.back()].end;
    if (!t.in[i]) {
      all.push_back({i, begin, end});
      continue;
    }
    double left = t.out[i].value().end;  // and the accesses before the copy in
    for (const gap& g : gaps_of(w.tensors[i])) {
      if (t.segments[g.after].end <= t.in[i]->begin) left = std::max(left, t.segments[g.after].end);
    }
    all.push_back({i, begin, left});
    all.push_back({i, t.in[i]->begin, end});
  }
  return all;
}

double peak_bytes(const workload& w, const std::vector<residency>& all) {
  std::vector<std::pair<double, double>> changes;  // what goes at a time goes before what comes
  for (const residency& r : all) {
    const auto bytes = static_cast<double>(w.tensors[r.tensor].bytes);
    changes.emplace_back(r.begin, bytes);
    changes.emplace_back(r.end, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  double sum = 0, most = 0;
  for (const auto& [at, bytes] : changes) most = std::max(most, sum += bytes);
  return most;
}

}  // namespace schedules
