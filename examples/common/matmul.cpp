#include "matmul.hpp"

namespace examples {

template <class T>
void matmul<T>::forward(const blas_context& blas, const shape& s, const T* x, const T* w, T* y, const T* residual) {
  multiply(blas, product<T, T>{"linear", false, true, s.rows, s.outputs, s.inputs, x, w, residual, y});
}

template <class T>
void matmul<T>::forward_unrounded(const blas_context& blas, const shape& s, const T* x, const T* w, C* y) {
  multiply(blas, product<T, C>{"linear", false, true, s.rows, s.outputs, s.inputs, x, w, nullptr, y});
}

template <class T>
void matmul<T>::backward_input(const blas_context& blas, const shape& s, const T* d_y, const T* w, T* d_x, bool add) {
  multiply(blas, product<T, T>{"linear_backward_input", false, false, s.rows, s.inputs, s.outputs, d_y, w,
                               add ? d_x : nullptr, d_x});
}

template <class T>
void matmul<T>::backward_weight(const blas_context& blas, const shape& s, const T* d_y, const T* x, C* d_w) {
  multiply(blas, product<T, C>{"linear_backward_weight", true, false, s.outputs, s.inputs, s.rows, d_y, x, d_w, d_w});
}

template struct matmul<float>;
template struct matmul<double>;
template struct matmul<bf16>;

}  // namespace examples
