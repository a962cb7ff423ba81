// This header sends object graphs over connections: send(connection, root) in one process,
// receive<T>(connection) in another. save() and map() keep them in files.
#pragma once

#include <verbatim/core/context.hpp>
#include <verbatim/objects/operations/compose.hpp>
#include <verbatim/objects/operations/each.hpp>
#include <verbatim/objects/operations/receive.hpp>
#include <verbatim/objects/operations/save.hpp>
#include <verbatim/objects/operations/send.hpp>
