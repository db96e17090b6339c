#pragma once

#include <hostoffload/placement.hpp>

// clang-format off
template <class Name>
using planned_placement = hostoffload::placement<
    Name,
    hostoffload::save_these<Name::q, Name::gate, Name::up>>;
