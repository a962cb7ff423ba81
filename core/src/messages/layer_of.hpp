// How a layer that lends is made for a connection.
#pragma once

#include <memory>

#include <verbatim/core/connection.hpp>

#include "lending_cost.hpp"

namespace verbatim {

// The layer L of a connection, as it is made by a program's first use. Its receives end with the
// connection: L::end(why) is called when that has ended, or when the program ends it.
template <class L>
std::shared_ptr<L> layer_of(Connection& connection) {
    struct End {
        std::shared_ptr<L> layer;
        ~End() { layer->end(Errc::flushed); }
    };
    const bool is_there = LayerAccess::has_handler(connection, L::kChannel);
    auto layer = connection.layer<L>();
    if (!is_there)
        connection.add_end_handler({[](void* state, Connection& ended) noexcept {
                                        static_cast<End*>(state)->layer->end(ended.state());
                                    },
                                    std::shared_ptr<End>(new End{layer})});
    if (!is_there) layer->set_least_lent(lend_from(connection));
    return layer;
}

}  // namespace verbatim
