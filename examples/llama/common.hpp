#pragma once
// What the examples share, under this one's name.

#include "common/device_array.hpp"
#include "common/element.hpp"
#include "common/random.hpp"

namespace llama {

namespace ho = hostoffload;
using examples::bf16;
using examples::compute_t;
using examples::device_array;
using examples::random;
using examples::range;

}  // namespace llama
