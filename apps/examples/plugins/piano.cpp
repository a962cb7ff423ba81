// A plugin: its class is known to every program that has loaded it, also for graphs that come in.
#include "instrument.hpp"

class Piano : public Instrument {
  public:
    explicit Piano(int keys) : keys_(keys) {}
    std::string play() const override { return "a piano of " + std::to_string(keys_) + " keys"; }

  private:
    int keys_;
    VERBATIM_DESCRIBE_PRIVATE_DERIVED(Piano, (Instrument), keys_)
};
VERBATIM_PROTOTYPE(Piano, 0)  // there is no default constructor

extern "C" Instrument* make_instrument() { return new Piano(88); }
