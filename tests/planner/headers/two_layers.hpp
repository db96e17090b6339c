#pragma once

#include <hostoffload/placement.hpp>

// clang-format off
template <class Name>
using planned_placement = hostoffload::placement<
    Name,
    hostoffload::on_layers<0, 1, hostoffload::remat_these<Name::q>>,
    hostoffload::on_layers<1, hostoffload::end, hostoffload::save_these<Name::q>>,
    hostoffload::remat_these<Name::gate>,
    hostoffload::on_layers<0, 1, hostoffload::offload_these<Name::up>>,
    hostoffload::on_layers<1, hostoffload::end, hostoffload::remat_these<Name::up>>>;
