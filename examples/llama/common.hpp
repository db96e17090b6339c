#pragma once
// What the examples share, under this one's name.

#include "common/device_array.hpp"
#include "common/element.hpp"
#include "common/parameters.hpp"
#include "common/random.hpp"
#include "common/safetensors.hpp"
#include "common/tokens.hpp"
#include "common/training.hpp"

namespace llama {

namespace ho = hostoffload;
using examples::bf16;
using examples::compute_t;
using examples::device_array;
using examples::element;
using examples::parameter;
using examples::random;
using examples::range;
using examples::safetensors_file;
using examples::safetensors_header;
using examples::stored_tensor;
using examples::to_string;
using examples::token_stream;
using examples::training;

}  // namespace llama
