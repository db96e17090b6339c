#pragma once
// Everything that a trainer needs; launch.hpp, one way to launch a kernel on either device, is separate.

#include <hostoffload/coroutine/task.hpp>      // IWYU pragma: export
#include <hostoffload/coroutine/when_all.hpp>  // IWYU pragma: export
#include <hostoffload/errors.hpp>              // IWYU pragma: export
#include <hostoffload/host_values.hpp>         // IWYU pragma: export
#include <hostoffload/lease.hpp>               // IWYU pragma: export
#include <hostoffload/memory/pinned_slab.hpp>  // IWYU pragma: export
#include <hostoffload/offload_tensor.hpp>      // IWYU pragma: export
#include <hostoffload/options.hpp>             // IWYU pragma: export
#include <hostoffload/placement.hpp>           // IWYU pragma: export
#include <hostoffload/prefetch_scheduler.hpp>  // IWYU pragma: export
#include <hostoffload/report/print.hpp>        // IWYU pragma: export
#include <hostoffload/step_graph.hpp>          // IWYU pragma: export
