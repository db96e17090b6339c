// raw_trainer.cu with hostoffload: what the backward pass needs of a block waits in host memory. The difference of the
// two files is all that it takes, and the results are the same to the last bit.

#include "raw_kernels.hpp"

#include <hostoffload/hostoffload.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace {

namespace ho = hostoffload;

constexpr std::size_t layers = 6, batch = 4, sequence = 32, width = 32, feed_forward = 4 * width, vocabulary = 128;
constexpr std::size_t rows = batch * sequence;
constexpr std::size_t narrow = rows * width, wide = rows * feed_forward, scores = rows * sequence;  // elements
constexpr int steps = 30;

/// Device memory that is taken once and handed out in order, aligned to 256 bytes.
class arena {
public:
  explicit arena(std::size_t bytes) : bytes_(bytes) { ho::check(cudaMalloc(&begin_, bytes), "cudaMalloc"); }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena() { cudaFree(begin_); }

  template <class T = float>
  T* take(std::size_t n) {
    T* p = reinterpret_cast<T*>(static_cast<std::byte*>(begin_) + used_);
    used_ += (n * sizeof(T) + 255) / 256 * 256;
    if (used_ > bytes_) throw std::runtime_error("the arena is full: " + std::to_string(used_) + " bytes are needed");
    return p;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

private:
  void* begin_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
};

/// Parameters, or their gradients, in one piece: the embeddings, the blocks, the head.
struct block_weights {
  float *qkv, *out, *up, *down;
};
constexpr std::size_t block_parameters = (4 * width + 2 * feed_forward) * width;
constexpr std::size_t blocks_at = (vocabulary + sequence) * width;
constexpr std::size_t head_at = blocks_at + layers * block_parameters;
constexpr std::size_t parameters = head_at + vocabulary * width;

block_weights block(float* all, std::size_t l) {
  float* w = all + blocks_at + l * block_parameters;
  return {w, w + 3 * width * width, w + 4 * width * width, w + (4 * width + feed_forward) * width};
}

/// What the backward pass needs of a block.
template <class T>
struct saved {
  T *norm1, *qkv, *probs, *context, *norm2, *up;
  float *scale1, *scale2;  // small: they stay where they are
};

enum class name { norm1, qkv, probs, context, norm2, up };
using placement =
    ho::placement<name, ho::offload_these<name::norm1, name::qkv, name::probs, name::context, name::norm2, name::up>>;
template <name Name>
using tensor = ho::offload_tensor<float, placement::of<Name>>;

/// The activations of one block.
struct block_tensors {
  ho::prefetch_scheduler& s;
  ho::layer_position at;
  tensor<name::norm1> norm1{s, narrow, at};
  tensor<name::qkv> qkv{s, 3 * narrow, at};
  tensor<name::probs> probs{s, scores, at};
  tensor<name::context> context{s, narrow, at};
  tensor<name::norm2> norm2{s, narrow, at};
  tensor<name::up> up{s, wide, at};
};

/// h is the residual stream, changed in place; act is scratch of feed_forward columns.
void block_forward(cudaStream_t stream, const block_weights& w, float* h, float* act, const saved<float>& a) {
  raw::rms_norm(stream, h, a.norm1, a.scale1, rows, width);
  raw::matmul(stream, a.norm1, w.qkv, a.qkv, rows, width, 3 * width);
  raw::attention(stream, a.qkv, a.probs, a.context, rows, sequence, width);
  raw::matmul_add(stream, a.context, w.out, h, rows, width, width);
  raw::rms_norm(stream, h, a.norm2, a.scale2, rows, width);
  raw::matmul(stream, a.norm2, w.up, a.up, rows, width, feed_forward);
  raw::gelu(stream, a.up, act, rows * feed_forward);
  raw::matmul_add(stream, act, w.down, h, rows, feed_forward, width);
}

/// dh becomes the gradient of the block's input; d1, d2, d3 are scratch of feed_forward columns.
void block_backward(cudaStream_t stream, const block_weights& w, const block_weights& dw, float* dh, float* d1,
                    float* d2, float* d3, const saved<const float>& a) {
  raw::gelu(stream, a.up, d2, rows * feed_forward);
  raw::matmul_backward(stream, d2, w.down, dh, d1, dw.down, rows, feed_forward, width);
  raw::gelu_backward(stream, a.up, d1, rows * feed_forward);
  raw::matmul_backward(stream, a.norm2, w.up, d1, d2, dw.up, rows, width, feed_forward);
  raw::rms_norm_backward(stream, a.norm2, a.scale2, d2, dh, rows, width);
  raw::matmul_backward(stream, a.context, w.out, dh, d1, dw.out, rows, width, width);
  raw::attention_backward(stream, a.qkv, a.probs, d1, d3, d2, rows, sequence, width);
  raw::matmul_backward(stream, a.norm1, w.qkv, d2, d1, dw.qkv, rows, width, 3 * width);
  raw::rms_norm_backward(stream, a.norm1, a.scale1, d1, dh, rows, width);
}

/// Inputs and targets of a step: `batch` pieces of the text, each target the byte behind its input.
void load(std::vector<int>& tokens, std::vector<int>& targets, int step) {
  static constexpr std::string_view text =
      "the host keeps what the device has no room for, and the link brings it back before it is needed. "
      "what is saved stays, what is dropped is made again, what is sent away returns in the reverse order. ";
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = static_cast<std::size_t>(step) * 13 + r / sequence * 47 + r % sequence;
    tokens[r] = static_cast<unsigned char>(text[at % text.size()]);
    targets[r] = static_cast<unsigned char>(text[(at + 1) % text.size()]);
  }
}

void train(cudaStream_t stream) {
  arena memory(std::size_t{16} << 20U);
  auto* p = memory.take(parameters);
  auto* dp = memory.take(parameters);
  auto* m = memory.take(2 * parameters);
  auto* v = m + parameters;
  auto* tokens = memory.take<int>(rows);
  auto* targets = memory.take<int>(rows);
  auto* h = memory.take(narrow);
  auto* dh = memory.take(narrow);
  auto* norm = memory.take(narrow);
  auto* scale = memory.take((2 * layers + 1) * rows);
  auto* logits = memory.take(rows * vocabulary);
  auto* losses = memory.take(rows);
  auto* d1 = memory.take(wide);
  auto* d2 = memory.take(wide);
  auto* d3 = memory.take(wide);
  constexpr std::size_t window = std::size_t{384} << 10U;  // device memory for all of them
  ho::prefetch_scheduler scheduler(
      {.compute = stream, .window = window, .device_memory = {memory.take<std::byte>(window), window}});
  std::vector<std::unique_ptr<block_tensors>> blocks;
  for (std::size_t l = 0; l < layers; ++l) {
    blocks.emplace_back(new block_tensors{scheduler, {l, layers}});
  }
  std::cerr << "device memory: " << memory.used() / 1024 << " KiB\n";

  raw::fill_random(stream, p, parameters, 42, 0.2F);
  ho::check(cudaMemsetAsync(m, 0, 2 * parameters * sizeof *m, stream), "cudaMemsetAsync");
  std::vector<int> host_tokens(rows), host_targets(rows);
  std::vector<float> host_losses(rows);
  for (int step = 1; step <= steps; ++step) {
    load(host_tokens, host_targets, step);
    ho::check(cudaMemcpyAsync(tokens, host_tokens.data(), rows * sizeof(int), cudaMemcpyDefault, stream), "tokens");
    ho::check(cudaMemcpyAsync(targets, host_targets.data(), rows * sizeof(int), cudaMemcpyDefault, stream), "targets");

    ho::step offloaded(scheduler);
    raw::embed(stream, tokens, p, p + vocabulary * width, h, rows, sequence, width, vocabulary);
    for (std::size_t l = 0; l < layers; ++l) {
      float* scale1 = scale + 2 * l * rows;
      float* scale2 = scale1 + rows;
      auto norm1 = blocks[l]->norm1.produce(stream);
      auto qkv = blocks[l]->qkv.produce(stream);
      auto probs = blocks[l]->probs.produce(stream);
      auto context = blocks[l]->context.produce(stream);
      auto norm2 = blocks[l]->norm2.produce(stream);
      auto up = blocks[l]->up.produce(stream);
      block_forward(stream, block(p, l), h, d1,
                    {norm1.data(), qkv.data(), probs.data(), context.data(), norm2.data(), up.data(), scale1, scale2});
    }
    float* last_scale = scale + 2 * layers * rows;
    raw::rms_norm(stream, h, norm, last_scale, rows, width);
    raw::matmul(stream, norm, p + head_at, logits, rows, width, vocabulary);
    raw::cross_entropy(stream, logits, targets, losses, rows, vocabulary);

    raw::matmul_backward(stream, norm, p + head_at, logits, d1, dp + head_at, rows, width, vocabulary);
    ho::check(cudaMemsetAsync(dh, 0, narrow * sizeof *dh, stream), "cudaMemsetAsync");
    raw::rms_norm_backward(stream, norm, last_scale, d1, dh, rows, width);
    for (std::size_t l = layers; l-- > 0;) {
      float* scale1 = scale + 2 * l * rows;
      float* scale2 = scale1 + rows;
      auto norm1 = std::move(blocks[l]->norm1).fetch(stream);
      auto qkv = std::move(blocks[l]->qkv).fetch(stream);
      auto probs = std::move(blocks[l]->probs).fetch(stream);
      auto context = std::move(blocks[l]->context).fetch(stream);
      auto norm2 = std::move(blocks[l]->norm2).fetch(stream);
      auto up = std::move(blocks[l]->up).fetch(stream);
      block_backward(stream, block(p, l), block(dp, l), dh, d1, d2, d3,
                     {norm1.data(), qkv.data(), probs.data(), context.data(), norm2.data(), up.data(), scale1, scale2});
    }
    offloaded.end();
    raw::embed_backward(stream, tokens, dh, dp, dp + vocabulary * width, rows, sequence, width, vocabulary);
    raw::adamw(stream, p, dp, m, v, parameters, 0.01F, step);

    ho::check(cudaMemcpyAsync(host_losses.data(), losses, rows * sizeof(float), cudaMemcpyDefault, stream), "losses");
    ho::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float loss = 0;
    for (const float of_row : host_losses) loss += of_row / rows;
    if (step == 1 || step % 10 == 0)
      std::cout << "step " << step << ": loss " << std::hexfloat << loss << " = " << std::defaultfloat << loss << '\n';
  }
  std::cerr << scheduler.report();
  std::vector<float> result(parameters);
  ho::check(cudaMemcpy(result.data(), p, parameters * sizeof(float), cudaMemcpyDeviceToHost), "parameters");
  std::uint64_t checksum = 0xCBF29CE484222325U;  // FNV-1a over the bits
  for (const float f : result) checksum = (checksum ^ std::bit_cast<std::uint32_t>(f)) * 0x100000001B3U;
  std::cout << "parameters " << std::hex << checksum << std::dec << '\n';
}

}  // namespace

int main(int, char** argv) try {
  cudaStream_t stream = nullptr;
  ho::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  train(stream);
  ho::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return 0;
} catch (const std::exception& e) {
  std::cerr << argv[0] << ": " << e.what() << '\n';
  return 1;
}
