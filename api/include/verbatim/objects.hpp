// This header sends object graphs over connections: send(connection, root) in one process,
// receive<T>(connection) in another.
#pragma once

#include <verbatim/core/context.hpp>
#include <verbatim/objects/receive.hpp>
#include <verbatim/objects/send.hpp>
