#pragma once
// One enqueued operation on its way through the simulation, and the streams and events that order it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hostoffload/virtual_gpu/control.hpp>
#include <hostoffload/virtual_gpu/detail/clock.hpp>
#include <hostoffload/virtual_gpu/detail/effect.hpp>

namespace hostoffload::inline v0::virtual_gpu::detail {

struct stream;
struct event;
struct memory_block;
struct capture;
struct pending_operation;

/// What the simulation does next with an operation.
enum class phase : std::uint8_t {
  queued,        // behind others of its stream, or in front and blocked by other streams' operations
  reach,         // in front of its stream from a moment that is still to come
  wait_latency,  // a wait whose event has come, or what uses nothing and is delayed
  engine,        // ready, and waiting for its copy engine
  latency,       // has its resource; no byte moves yet
  flow           // moves bytes or computes, at a rate that depends on what else runs
};

/// Everything of an operation that starts from its default whenever the operation is used again.
struct operation_state {
  // What it is
  operation_kind kind = operation_kind::kernel;
  resource uses = resource::none;
  std::uint32_t name = 0;  // see names
  std::uint64_t call = 0;
  std::uint64_t tick = 0;  // in its stream's lane
  stream* on = nullptr;
  pending_operation* next = nullptr;  // of its stream

  // What it needs
  double compute_seconds = 0;  // of all SMs
  double memory_bytes = 0;     // HBM traffic
  double least_seconds = 0;    // bound by something that is not shared
  double link_bytes = 0;
  double delay = 0;             // seconds on top
  bool batched = false;         // a copy that follows another of its batch
  double flops = 0, bytes = 0;  // as declared, for the timeline
  const void* to = nullptr;     // for the timeline, as the next two
  const void* from = nullptr;
  std::uint64_t waits_for = 0;

  // Where it is
  phase at = phase::queued;
  bool reached = false;
  std::uint32_t blocked_by = 0;
  double enqueued = 0, reached_at = 0, ready = 0, start = 0;
  double alone = 0;      // seconds of flow when nothing else runs; kernels
  double remaining = 0;  // seconds of flow alone, or bytes of a copy
  double speed = 0;      // of `remaining`, per second
  double updated = 0, finish = 0;

  // What it does when it completes, beside its effect
  event* marks = nullptr;
  memory_block* frees = nullptr;
};

struct pending_operation : operation_state {
  effect does;
  std::vector<pending_operation*> blocks;
};

struct stream {
  std::uint64_t number = 0;
  std::uint64_t call = 0;  // of its creation
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  bool implicit = false;  // not created by the program
  [[nodiscard]] bool blocking() const noexcept { return (flags & cudaStreamNonBlocking) == 0; }

  // Order, known when things are enqueued
  lane in_lane = 0;
  std::uint64_t tick = 0;    // last enqueued
  std::uint64_t anchor = 0;  // of the last one that may bring order: records only repeat what came before
  vector_clock clock;
  std::uint64_t host_version = 0;  // of the host's clock, when last joined
  std::uint64_t legacy_tick = 0;   // of the legacy stream, when last joined

  // While it is captured
  capture* captured_by = nullptr;
  std::size_t branch = 0;           // among the streams of the capture
  std::vector<std::size_t> behind;  // nodes that the next one depends on

  // The queue
  pending_operation* head = nullptr;
  pending_operation* tail = nullptr;
  std::uint64_t done = 0;  // tick of the last completed operation
  double last_end = 0;
};

struct event {
  unsigned flags = 0;
  int device = 0;
  std::uint64_t number = 0;
  std::uint64_t call = 0;  // of its creation
  bool recorded = false;

  // What the last record captured
  vector_clock clock;
  lane in_lane = 0;
  std::uint64_t anchor = 0;       // of its stream: whoever is behind it is behind all of `clock`
  std::uint64_t stream = 0;       // number
  std::uint64_t recorded_by = 0;  // call

  pending_operation* pending = nullptr;  // the record, until it completes
  double time = 0;

  // The capture that it was last recorded in, if in one, and the nodes that its stream was behind
  std::uint64_t captured_in = 0;
  std::vector<std::size_t> captured;
};

}  // namespace hostoffload::inline v0::virtual_gpu::detail
