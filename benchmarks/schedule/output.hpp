#pragma once
// Rows as text and as JSON, and files for those who want to check workloads and timelines themselves.

#include "measure.hpp"
#include "workload.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace schedules {

/// What the columns of table() are.
[[nodiscard]] std::string legend();
/// One workload's rows under a line that says what it is and what bounds it.
[[nodiscard]] std::string table(const workload& w, const bounds& b, const std::vector<row>& rows);

/// {"rows": [{"workload", "schedule", "step_over_bound", "window_bytes", "reserve_bytes", "least_window_bytes",
/// "peak_bytes", "planned_peak_bytes", "exposed_s", "step_s", "bound_s"}, …]}; planned_peak_bytes is null where
/// no plan was followed. A schedule that refused its window has "refused", the reason, in place of what was measured.
[[nodiscard]] std::string json(const std::vector<row>& rows);

/// Creates the folder where it is missing. Throws std::runtime_error with one line.
void make_folder(const std::filesystem::path& folder);

/// FOLDER/WORKLOAD.json: name, machine, source, link (bytes per second), bound, segments (seconds, pass, layer, micro
/// batch) and tensors (name, layer, micro batch, bytes, made_in and used_in, which are indices of segments).
void dump(const std::filesystem::path& folder, const workload& w, const bounds& b);

/// FOLDER/WORKLOAD.SCHEDULE.json: the row's figures; "operations" (id, operation, resource, stream, start, end, bytes,
/// dependences, which are ids) and "held" (tensor, an index; start, end). Times are seconds since the step may begin;
/// until then the kernel "hold back" keeps the compute stream busy, so that the host has enqueued all of the step.
void dump(const std::filesystem::path& folder, const measured& m);

}  // namespace schedules
