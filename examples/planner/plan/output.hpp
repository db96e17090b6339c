#pragma once
// What plan prints and writes.

#include "answer.hpp"
#include "options.hpp"

#include <string>

namespace planner {

[[nodiscard]] std::string text_of(const record_answer& a, const step_program& program, const record_problem& p,
                                  const options& o, const ho::virtual_gpu::machine& m);
[[nodiscard]] std::string json_of(const record_answer& a, const record_problem& p, const options& o);
[[nodiscard]] std::string header_of(const record_answer& a, const record_problem& p, const options& o);

}  // namespace planner
