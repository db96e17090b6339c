// On the virtual GPU: a CBLAS on one thread (two threads give other bits than one).
#include "blas.hpp"
#include "element.hpp"

#include <cblas.h>

#include <memory>
#include <type_traits>

namespace examples {
namespace {

void gemm(CBLAS_TRANSPOSE a_op, CBLAS_TRANSPOSE b_op, int m, int n, int k, const float* a, int lda, const float* b,
          int ldb, float beta, float* c) {
  cblas_sgemm(CblasRowMajor, a_op, b_op, m, n, k, 1.0F, a, lda, b, ldb, beta, c, n);
}
void gemm(CBLAS_TRANSPOSE a_op, CBLAS_TRANSPOSE b_op, int m, int n, int k, const double* a, int lda, const double* b,
          int ldb, double beta, double* c) {
  cblas_dgemm(CblasRowMajor, a_op, b_op, m, n, k, 1.0, a, lda, b, ldb, beta, c, n);
}

/// A matrix as the CBLAS takes it: the elements themselves, or a converted copy.
template <class C>
class operand {
public:
  operand(const C* elements, std::size_t) : elements_(elements) {}
  operand(const bf16* elements, std::size_t n) : copy_(std::make_unique_for_overwrite<C[]>(n)), elements_(copy_.get()) {
    for (std::size_t i = 0; i < n; ++i) copy_[i] = static_cast<C>(elements[i]);
  }
  [[nodiscard]] const C* get() const { return elements_; }

private:
  std::unique_ptr<C[]> copy_;
  const C* elements_;
};

template <class A, class R>
void run(const product<A, R>& p) {
  using C = compute_t<A>;
  openblas_set_num_threads(1);
  const operand<C> left(p.a, p.m * p.k);
  const operand<C> right(p.b, p.k * p.n);
  const auto rows = static_cast<int>(p.m);
  const auto columns = static_cast<int>(p.n);
  const auto inner = static_cast<int>(p.k);
  const auto into = [&](C* out) {
    if (p.add != nullptr) {
      for (std::size_t i = 0; i < p.m * p.n; ++i) out[i] = static_cast<C>(p.add[i]);
    }
    gemm(p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans, rows, columns, inner,
         left.get(), p.transpose_a ? rows : inner, right.get(), p.transpose_b ? inner : columns,
         p.add == nullptr ? C(0) : C(1), out);
  };
  if constexpr (std::is_same_v<R, C>) {
    into(p.c);
  } else {
    const auto sums = std::make_unique_for_overwrite<C[]>(p.m * p.n);
    into(sums.get());
    for (std::size_t i = 0; i < p.m * p.n; ++i) p.c[i] = static_cast<R>(sums[i]);
  }
}

}  // namespace

struct blas_context::state {};

blas_context::blas_context(cudaStream_t stream) : stream_(stream) {}
blas_context::~blas_context() = default;

template <class A, class R>
void multiply(const blas_context& blas, const product<A, R>& p) {
  ho::launch(
      blas.stream(), 1, [p](std::size_t) { run(p); },
      ho::work{.name = p.name,
               .reads = {range(p.a, p.m * p.k), range(p.b, p.k * p.n), range(p.add, p.add == nullptr ? 0 : p.m * p.n)},
               .writes = {range(p.c, p.m * p.n)},
               .flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k),
               .rate = rate_of<A>});
}

template void multiply(const blas_context&, const product<float, float>&);
template void multiply(const blas_context&, const product<double, double>&);
template void multiply(const blas_context&, const product<bf16, bf16>&);
template void multiply(const blas_context&, const product<bf16, float>&);

}  // namespace examples
