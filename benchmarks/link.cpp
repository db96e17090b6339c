// What the link between host and device carries: to the device, to the host and both at once, by size of a copy and by
// kind of host memory. All copies of a measurement are enqueued before the first one starts (but pageable ones, which
// block the host), and all bytes are compared.

#include "device.hpp"

#include <hostoffload/memory/pinned_slab.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

namespace {

namespace ho = hostoffload;
using bench::giga;

enum class kind : std::uint8_t { pinned, registered, far, pageable };
enum class way : std::uint8_t { to_device, to_host, both };

constexpr std::string_view to_string(kind k) {
  constexpr std::string_view names[] = {"pinned", "registered", "registered_far", "pageable"};
  return names[static_cast<std::size_t>(k)];
}
constexpr std::string_view to_string(way w) {
  constexpr std::string_view names[] = {"to_device", "to_host", "both"};
  return names[static_cast<std::size_t>(w)];
}

constexpr std::size_t largest = std::size_t{1} << 30U;
constexpr std::size_t page = 4096;

/// The NUMA node nearest to the GPU; nothing where CUDA knows none.
std::optional<int> near_node() {
  int node = -1;
  const cudaError_t code = cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, 0);
  return code == cudaSuccess && node >= 0 ? std::optional<int>(node) : std::nullopt;
}

/// Another one that has cores: a GPU's own memory may be a node too. Linux lists ranges, as "0-1,4".
std::optional<int> far_node() {
  const std::optional<int> near = near_node();
  std::ifstream list("/sys/devices/system/node/has_cpu");
  for (std::string range; near && std::getline(list, range, ',');) {
    const int first = std::stoi(range);
    const std::size_t dash = range.find('-');
    const int last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    for (int node = first; node <= last; ++node) {
      if (node != *near) return node;
    }
  }
  return std::nullopt;
}

/// Host memory of one kind.
class host_buffer {
public:
  explicit host_buffer(kind k) {
    if (k == kind::pageable) {
      pageable_.reset(static_cast<std::byte*>(std::aligned_alloc(page, largest)));
      if (!pageable_) throw std::bad_alloc();
      std::memset(pageable_.get(), 0, largest);
      return;
    }
    slab_.emplace(largest,
                  ho::pinning_options{.how = k == kind::pinned ? ho::pinning::allocated : ho::pinning::registered,
                                      .node = k == kind::far ? far_node() : near_node(),
                                      .log = &std::cerr});
  }
  [[nodiscard]] std::byte* begin() const {
    return slab_ ? static_cast<std::byte*>(slab_->region().begin) : pageable_.get();
  }

private:
  struct free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::optional<ho::pinned_slab> slab_;
  std::unique_ptr<std::byte[], free> pageable_;
};

void fill(std::byte* p, std::size_t bytes) {
  std::uint64_t word = 1;
  for (std::size_t i = 0; i < bytes; i += sizeof word) {
    word = word * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
    std::memcpy(p + i, &word, sizeof word);
  }
}

/// Of one kind of memory: what is sent and what comes back, and their places on the device.
struct buffers {
  explicit buffers(kind k) : source(k), result(k) { fill(source.begin(), largest); }
  host_buffer source, result;
  ho::device_allocation in{largest}, out{largest};
};

/// The buffers of one kind at a time: they are large.
buffers& buffers_of(kind k) {
  static std::unique_ptr<buffers> current;
  static kind has{};
  if (!current || has != k) {
    current.reset();
    current = std::make_unique<buffers>(k);
    has = k;
  }
  return *current;
}

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind direction, cudaStream_t stream) {
  ho::check(cudaMemcpyAsync(to, from, bytes, direction, stream), "cudaMemcpyAsync");
}

void synchronise() { ho::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

/// GB/s per direction, medians: what the summary's ratios are made of.
std::map<std::tuple<kind, way, std::size_t>, double> rates;

struct lane {
  void* to;
  const void* from;
  cudaMemcpyKind direction;
};

double seconds_of(const std::vector<lane>& lanes, std::size_t bytes, std::size_t copies, bool blocks) {
  const ho::stream streams[2];
  const ho::event begin(ho::event_use::timing);
  const ho::event ends[2] = {ho::event(ho::event_use::timing), ho::event(ho::event_use::timing)};
  if (blocks) {
    const double began = bench::host_seconds();
    for (std::size_t i = 0; i < copies; ++i) {
      for (std::size_t l = 0; l < lanes.size(); ++l)
        copy(lanes[l].to, lanes[l].from, bytes, lanes[l].direction, streams[l].get());
    }
    synchronise();
    return bench::host_seconds() - began;
  }
  bench::latch latch;
  latch.close(streams[0].get());
  ho::event_ref(begin).record(streams[0].get());
  if (lanes.size() > 1) ho::event_ref(begin).hold(streams[1].get());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (std::size_t i = 0; i < copies; ++i)
      copy(lanes[l].to, lanes[l].from, bytes, lanes[l].direction, streams[l].get());
    ho::event_ref(ends[l]).record(streams[l].get());
  }
  latch.open();
  synchronise();
  double longest = 0;
  for (std::size_t l = 0; l < lanes.size(); ++l) longest = std::max(longest, bench::seconds_between(begin, ends[l]));
  return longest;
}

void link(benchmark::State& state, kind k, way w, std::size_t bytes) {
  buffers& b = buffers_of(k);
  void* const in = b.in.region().begin;
  void* const out = b.out.region().begin;
  std::vector<lane> lanes;
  if (w != way::to_host) lanes.push_back({in, b.source.begin(), cudaMemcpyHostToDevice});
  if (w != way::to_device) lanes.push_back({b.result.begin(), out, cudaMemcpyDeviceToHost});
  const std::size_t copies = std::clamp<std::size_t>((std::size_t{32} << 20U) / bytes, 1, 16);

  ho::check(cudaMemset(in, 0, bytes), "cudaMemset");
  if (w != way::to_device) ho::check(cudaMemcpy(out, b.source.begin(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  std::memset(b.result.begin(), 0, bytes);
  std::vector<double> times;
  for (auto _ : state) {
    const double seconds = seconds_of(lanes, bytes, copies, k == kind::pageable);
    state.SetIterationTime(seconds);
    times.push_back(seconds);
  }
  if (w == way::to_device) ho::check(cudaMemcpy(b.result.begin(), in, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (std::memcmp(b.result.begin(), b.source.begin(), bytes) != 0) {
    state.SkipWithError("the bytes that arrived are not those that were sent");
    return;
  }
  const double rate = static_cast<double>(bytes * copies) / bench::median(times) / giga;
  rates[{k, w, bytes}] = rate;
  state.counters["GB/s"] = rate;
  const auto pinned = rates.find({kind::pinned, w, bytes});
  if (k != kind::pinned && pinned != rates.end()) state.counters["of_pinned"] = rate / pinned->second;
  const auto alone = rates.find({k, way::to_host, bytes});
  if (w == way::both && alone != rates.end()) state.counters["of_to_host"] = rate / alone->second;
}

void register_all() {
  for (const kind k : {kind::pinned, kind::registered, kind::far, kind::pageable}) {
    if (k == kind::far && !far_node()) continue;
    for (const way w : {way::to_device, way::to_host, way::both}) {
      for (std::size_t bytes = 4096; bytes <= largest; bytes *= bytes < (std::size_t{64} << 20U) ? 16 : 4) {
        const std::string name =
            std::string(to_string(k)) + '/' + std::string(to_string(w)) + '/' + std::to_string(bytes);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { link(s, k, w, bytes); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond)
            ->Iterations(bench::on_virtual_gpu ? 1 : 11);
      }
    }
  }
}

void summarise() {
  const auto ratio = [](const char* text, kind k, way w, kind other, way other_way) {
    const auto a = rates.find({k, w, largest});
    const auto b = rates.find({other, other_way, largest});
    if (a != rates.end() && b != rates.end()) std::cerr << text << a->second / b->second << '\n';
  };
  ratio("pinned over pageable, to the host: ", kind::pinned, way::to_host, kind::pageable, way::to_host);
  ratio("registered over pinned, to the host: ", kind::registered, way::to_host, kind::pinned, way::to_host);
  ratio("each direction with both at once over to the host alone: ", kind::pinned, way::both, kind::pinned,
        way::to_host);
  ratio("registered on another NUMA node over on the GPU's, to the host: ", kind::far, way::to_host, kind::registered,
        way::to_host);
  if (!far_node())
    std::cerr << "no second NUMA node with cores here, or the GPU's is unknown: far memory not measured\n";
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all, summarise); }
