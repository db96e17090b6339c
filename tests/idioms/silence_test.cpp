#include "idioms.hpp"

#include <hostoffload/virtual_gpu/control.hpp>

#include "catch.hpp"

namespace vg = hostoffload::virtual_gpu;

TEST_CASE("the idioms race nowhere and leave nothing behind") {
  vg::reset(vg::gb200());
  for (const auto idiom : {idioms::table_and_coroutines, idioms::two_tasks, idioms::second_stream,
                           idioms::straight_lines, idioms::choices_at_construction, idioms::value_for_the_host}) {
    idiom();
    for (const vg::finding& found : vg::findings()) FAIL_CHECK(found.message);
    for (const vg::finding& leaked : vg::leaks()) FAIL_CHECK(leaked.message);
  }
}
