// expect: run takes the function that returns the step's task
#include <hostoffload/hostoffload.hpp>
namespace ho = hostoffload;

ho::task<> train_step();
void run(ho::prefetch_scheduler& scheduler) {
#ifdef HOSTOFFLOAD_MENDED
  scheduler.run([] { return train_step(); });
#else
  scheduler.run(train_step());
#endif
}
