#pragma once
// 61 layers
// of one model

#include <hostoffload/placement.hpp>

// clang-format off
template <class Name>
using planned_placement = hostoffload::placement<
    Name,
    hostoffload::offload_these<Name::q>,
    hostoffload::on_layers<0, 3, hostoffload::save_these<Name::gate>>,
    hostoffload::on_layers<3, -4, hostoffload::remat_these<Name::gate>>,
    hostoffload::on_layers<-4, hostoffload::end, hostoffload::save_these<Name::gate>>,
    hostoffload::on_layers<0, 3, hostoffload::offload_these<Name::up>>,
    hostoffload::on_layers<3, -1, hostoffload::remat_these<Name::up>>,
    hostoffload::on_layers<-1, hostoffload::end, hostoffload::save_these<Name::up>>>;
