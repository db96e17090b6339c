// expect: run takes a function that returns a hostoffload::task<
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

ho::task<> train_step();
void run(ho::prefetch_scheduler& scheduler) {
#ifdef HOSTOFFLOAD_MENDED
  scheduler.run([] { return train_step(); });
#else
  scheduler.run([] { return 1; });
#endif
}
