// The placement table: what each name gets in each layer. What must not compile is in tests/compile_fail.

#include "catch.hpp"

#include <hostoffload/placement.hpp>

#include <string>
#include <string_view>

namespace ho = hostoffload;

namespace model {
enum class name { input, q, kv_a = 5, act, last = 127 };
}
using model::name;

namespace {

using table = ho::placement<name, ho::save_these<name::input>, ho::on_layers<0, -2, ho::offload_these<name::q>>,
                            ho::on_layers<-2, -1, ho::remat_these<name::q>>,
                            ho::on_layers<-1, ho::end, ho::save_these<name::q>>, ho::offload_or_save_these<name::kv_a>,
                            ho::remat_these<name::act>, ho::offload_or_remat_these<name::last>>;

template <name Name>
std::string choices(std::size_t layers) {
  std::string text;
  for (std::size_t i = 0; i < layers; ++i) text += std::string(ho::to_string(table::of<Name>::at({i, layers}))) + ' ';
  return text;
}

}  // namespace

TEST_CASE("a rule without a range holds in every layer") {
  CHECK(choices<name::input>(3) == "save save save ");
  CHECK(choices<name::kv_a>(2) == "offload_or_save offload_or_save ");
  CHECK(choices<name::act>(1) == "remat ");
  CHECK(choices<name::last>(1) == "offload_or_remat ");
}

TEST_CASE("ranges count from either end") {
  CHECK(choices<name::q>(5) == "offload offload offload remat save ");
  CHECK(choices<name::q>(3) == "offload remat save ");
  CHECK(choices<name::q>(2) == "remat save ");
}

TEST_CASE("in a model with few layers, ranges from both ends may meet: an error when the tensor is built") {
  using meets =
      ho::placement<name, ho::save_these<name::input, name::kv_a, name::act, name::last>,
                    ho::on_layers<0, 2, ho::save_these<name::q>>, ho::on_layers<2, -1, ho::offload_these<name::q>>,
                    ho::on_layers<-1, ho::end, ho::remat_these<name::q>>>;
  CHECK(meets::of<name::q>::at({1, 3}) == ho::choice::save);
  CHECK(meets::of<name::q>::at({2, 4}) == ho::choice::offload);
  CHECK_THROWS_WITH(meets::of<name::q>::at({1, 2}),
                    has_text("tensor q: layer 1 of 2 is in no on_layers range or in two"));
}

TEST_CASE("policies carry the name of their tensor, and are empty") {
  STATIC_REQUIRE(table::of<name::kv_a>::name == "kv_a");
  STATIC_REQUIRE(table::of<name::last>::name == "last");
  STATIC_REQUIRE(ho::placement_policy<table::of<name::q>>);
  STATIC_REQUIRE(std::is_empty_v<table::of<name::q>>);
  STATIC_REQUIRE(!std::is_same_v<table::of<name::q>, table::of<name::act>>);
}

namespace {
enum class hidden { a, b };
}
enum class global { a, b = 3 };

TEST_CASE("names may be enumerators of any scope") {
  enum class local { a, b };
  STATIC_REQUIRE(ho::placement<hidden, ho::save_these<hidden::a, hidden::b>>::of<hidden::b>::name == "b");
  STATIC_REQUIRE(ho::placement<global, ho::save_these<global::a, global::b>>::of<global::b>::name == "b");
  STATIC_REQUIRE(ho::placement<local, ho::save_these<local::a, local::b>>::of<local::b>::name == "b");
  STATIC_REQUIRE(ho::detail::enumerators<hidden>.size() == 2);
  STATIC_REQUIRE(ho::detail::enumerators<global>.size() == 2);
  STATIC_REQUIRE(ho::detail::enumerators<local>.size() == 2);
}

TEST_CASE("any_placement takes its choice when it is built") {
  using policy = ho::any_placement<name::act>;
  STATIC_REQUIRE(ho::chosen_policy<policy> && !ho::placement_policy<policy>);
  STATIC_REQUIRE(policy::name == "act");
  for (const ho::choice c : {ho::choice::save, ho::choice::offload, ho::choice::remat})
    CHECK(policy(c).at({0, 1}) == c);
}
