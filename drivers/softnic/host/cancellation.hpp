// Cancellation of threads (pthread_cancel) is put off inside the library: its functions hold locks
// and are noexcept, and a card's driver library has no points of cancellation either. Threads: any.
#pragma once

#include <pthread.h>

namespace verbatim::softnic {

// For its life the calling thread is not cancelled.
class WithoutCancellation {
  public:
    WithoutCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~WithoutCancellation() { pthread_setcancelstate(before_, nullptr); }
    WithoutCancellation(const WithoutCancellation&) = delete;
    WithoutCancellation& operator=(const WithoutCancellation&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace verbatim::softnic
