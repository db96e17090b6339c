// expect: deleted
// expect: event_ref
#include <hostoffload/cuda/event.hpp>
namespace ho = hostoffload;

#ifdef HOSTOFFLOAD_MENDED
cudaEvent_t some_event();
ho::event_ref mark() { return some_event(); }
#else
ho::event_ref mark() { return nullptr; }
#endif
