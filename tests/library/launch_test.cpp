// launch and launch_rows: each index once, each row by all the threads of its block.

#include "gpu.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr std::size_t rows = 37;

class matrix {
public:
  explicit matrix(std::size_t n) : memory_(n * sizeof(float)), size_(n) {}
  explicit matrix(const std::vector<float>& values) : matrix(values.size()) {
    ho::check(cudaMemcpy(data(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_.region().begin); }
  [[nodiscard]] std::vector<float> to_host() const {
    std::vector<float> values(size_);
    ho::check(cudaMemcpy(values.data(), data(), size_ * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

private:
  ho::device_allocation memory_;
  std::size_t size_;
};

/// sums[row], largest[row]: of a row of x, each with one call of the block.
void sums_and_largest(const float* x, std::size_t width, float* sums, float* largest) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    float part = 0;
    float most = x[row * width];
    for (std::size_t c = block.thread(); c < width; c += block.threads()) {
      part += x[row * width + c];
      most = x[row * width + c] > most ? x[row * width + c] : most;
    }
    const float sum = block.sum(part);
    const float all_most = block.max(most);
    if (block.thread() == 0) {
      sums[row] = sum;
      largest[row] = all_most;
    }
  };
  ho::launch_rows(nullptr, rows, kernel,
                  {.name = "sums_and_largest",
                   .reads = {{x, rows * width * sizeof *x}},
                   .writes = {{sums, rows * sizeof *sums}, {largest, rows * sizeof *largest}}});
}

/// x[row, c] becomes the sum of its row times the row's element from the other end: every thread needs what the block
/// found, and what other threads wrote.
void scale_and_reverse(float* x, float* scratch, std::size_t width) {
  const auto kernel = [=] HOSTOFFLOAD_DEVICE(std::size_t row, ho::row_block block) {
    float part = 0;
    for (std::size_t c = block.thread(); c < width; c += block.threads()) part += x[row * width + c];
    const float sum = block.sum(part);
    for (std::size_t c = block.thread(); c < width; c += block.threads()) {
      scratch[row * width + c] = sum * x[row * width + c];
    }
    block.sync();
    for (std::size_t c = block.thread(); c < width; c += block.threads()) {
      x[row * width + c] = scratch[row * width + (width - 1 - c)];
    }
  };
  const std::size_t bytes = rows * width * sizeof(float);
  ho::launch_rows(nullptr, rows, kernel,
                  {.name = "scale_and_reverse", .reads = {{x, bytes}}, .writes = {{x, bytes}, {scratch, bytes}}});
}

/// Whole numbers from −8 to 8: their sums are exact in any order.
std::vector<float> whole_numbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return values;
}

struct write_anywhere {
  HOSTOFFLOAD_DEVICE void operator()(std::size_t row, ho::row_block) const { reinterpret_cast<int*>(64)[row] = 1; }
};

}  // namespace

TEST_CASE("launch_rows: sums and maxima of rows, of fewer elements than a block has threads and of more") {
  gpu device;
  const std::size_t width = GENERATE(1U, 2U, 31U, 255U, 256U, 257U, 1000U);
  INFO("width " << width);
  const std::vector<float> x = whole_numbers(rows * width, 7);
  const matrix on_device(x);
  const matrix sums(rows), largest(rows);
  sums_and_largest(on_device.data(), width, sums.data(), largest.data());
  std::vector<float> expected_sums, expected_largest;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    expected_sums.push_back(std::accumulate(begin, end, 0.0F));
    expected_largest.push_back(*std::max_element(begin, end));
  }
  CHECK(sums.to_host() == expected_sums);
  CHECK(largest.to_host() == expected_largest);
}

TEST_CASE("launch_rows: every thread gets the sum, and sync shows what the others wrote") {
  gpu device;
  const std::size_t width = GENERATE(3U, 300U);
  const std::vector<float> x = whole_numbers(rows * width, 8);
  const matrix on_device(x), scratch(rows * width);
  scale_and_reverse(on_device.data(), scratch.data(), width);
  std::vector<float> expected(rows * width);
  for (std::size_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (std::size_t c = 0; c < width; ++c) sum += x[row * width + c];
    for (std::size_t c = 0; c < width; ++c) expected[row * width + c] = sum * x[row * width + (width - 1 - c)];
  }
  CHECK(on_device.to_host() == expected);
}

TEST_CASE("launch_rows: sums of numbers that round have the same bits each time") {
  gpu device;
  constexpr std::size_t width = 5000;
  std::mt19937 random(9);
  std::vector<float> x(rows * width);
  for (float& v : x) v = static_cast<float>(random()) * 1e-7F;
  const matrix on_device(x);
  std::vector<float> first;
  for (int i = 0; i < 5; ++i) {
    const matrix sums(rows), largest(rows);
    sums_and_largest(on_device.data(), width, sums.data(), largest.data());
    const std::vector<float> again = sums.to_host();
    if (first.empty()) first = again;
    CHECK(again == first);
  }
}

TEST_CASE("launch_rows of no rows, and launch of no elements, do nothing") {
  gpu device;
  ho::launch_rows(nullptr, 0, write_anywhere{}, {.name = "none"});
  ho::launch(nullptr, 0, wait_a_while{0}, {.name = "none"});
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}
