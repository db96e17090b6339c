// expect: define takes a function of one std::span<T> per tensor
// expect: T being the tensor's element type
#include <hostoffload/hostoffload.hpp>

#include <span>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
using element = float;
#else
using element = double;
#endif
void define(ho::offload_tensor<float, ho::remat>& act) {
  act.define([](std::span<element> out) { static_cast<void>(out); });
}
