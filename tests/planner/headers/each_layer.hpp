#pragma once
// every layer of gate differs

#include <hostoffload/placement.hpp>

// clang-format off
template <class Name>
using planned_placement = hostoffload::placement<
    Name,
    hostoffload::on_layers<0, 2, hostoffload::save_these<Name::q>>,
    hostoffload::on_layers<2, -2, hostoffload::offload_these<Name::q>>,
    hostoffload::on_layers<-2, hostoffload::end, hostoffload::save_these<Name::q>>,
    hostoffload::on_layers<0, 1, hostoffload::save_these<Name::gate>>,
    hostoffload::on_layers<1, 2, hostoffload::offload_these<Name::gate>>,
    hostoffload::on_layers<2, -2, hostoffload::remat_these<Name::gate>>,
    hostoffload::on_layers<-2, -1, hostoffload::offload_these<Name::gate>>,
    hostoffload::on_layers<-1, hostoffload::end, hostoffload::save_these<Name::gate, Name::up>>,
    hostoffload::on_layers<0, -1, hostoffload::offload_these<Name::up>>>;
