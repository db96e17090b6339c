#include "matmul.hpp"

#include <cblas.h>

#include <memory>

namespace llama {
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

/// c = op(a) op(b) + (add: where it is not null), with m x n elements in c and k products in each.
template <class C, class A, class R>
struct product {
  CBLAS_TRANSPOSE a_op, b_op;
  std::size_t m, n, k;
  const A* a;
  const A* b;
  const R* add;
  R* c;

  void operator()(std::size_t) const {
    openblas_set_num_threads(1);
    const operand<C> left(a, m * k);
    const operand<C> right(b, k * n);
    const auto rows = static_cast<int>(m);
    const auto columns = static_cast<int>(n);
    const auto inner = static_cast<int>(k);
    const int lda = a_op == CblasNoTrans ? inner : rows;
    const int ldb = b_op == CblasNoTrans ? columns : inner;
    const auto run = [&](C* out) {
      if (add != nullptr) {
        for (std::size_t i = 0; i < m * n; ++i) out[i] = static_cast<C>(add[i]);
      }
      gemm(a_op, b_op, rows, columns, inner, left.get(), lda, right.get(), ldb, add == nullptr ? C(0) : C(1), out);
    };
    if constexpr (std::is_same_v<R, C>) {
      run(c);
    } else {
      const auto sums = std::make_unique_for_overwrite<C[]>(m * n);
      run(sums.get());
      for (std::size_t i = 0; i < m * n; ++i) c[i] = static_cast<R>(sums[i]);
    }
  }

  void enqueue(cudaStream_t stream, const char* name) const {
    ho::launch(stream, 1, *this,
               ho::work{.name = name,
                        .reads = {range(a, m * k), range(b, k * n), range(add, add == nullptr ? 0 : m * n)},
                        .writes = {range(c, m * n)},
                        .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                        .rate = rate_of<A>});
  }
};

}  // namespace

template <class T>
void matmul<T>::forward(cudaStream_t stream, const shape& s, const T* x, const T* w, T* y, const T* residual) {
  const product<C, T, T> p{CblasNoTrans, CblasTrans, s.rows, s.outputs, s.inputs, x, w, residual, y};
  p.enqueue(stream, "linear");
}

template <class T>
void matmul<T>::backward_input(cudaStream_t stream, const shape& s, const T* d_y, const T* w, T* d_x, bool add) {
  const product<C, T, T> p{CblasNoTrans, CblasNoTrans, s.rows, s.inputs, s.outputs, d_y, w, add ? d_x : nullptr, d_x};
  p.enqueue(stream, "linear_backward_input");
}

template <class T>
void matmul<T>::backward_weight(cudaStream_t stream, const shape& s, const T* d_y, const T* x, C* d_w) {
  const product<C, T, C> p{CblasTrans, CblasNoTrans, s.outputs, s.inputs, s.rows, d_y, x, d_w, d_w};
  p.enqueue(stream, "linear_backward_weight");
}

template struct matmul<float>;
template struct matmul<double>;
template struct matmul<bf16>;

}  // namespace llama
