# Graphs for Cap'n Proto.
@0xdbb71f3a81f3c877;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("bench_graph::words");

struct Point {
  x @0 :Float64;
  y @1 :Float64;
}
struct Cloud {
  points @0 :List(Point);
}

struct Values {
  values @0 :List(UInt64);
}

struct Branch {
  value @0 :UInt64;
  left @1 :Branch;
  right @2 :Branch;
}

# Numbers of other nodes are their place in the list.
struct Node {
  value @0 :UInt64;
  first @1 :UInt32;
  second @2 :UInt32;
  third @3 :UInt32;
  fourth @4 :UInt32;
}
struct Nodes {
  nodes @0 :List(Node);
}

struct NumberEntry {
  key @0 :Int32;
  value @1 :Float64;
  count @2 :UInt64;
}
struct NumberMap {
  entries @0 :List(NumberEntry);
}
struct TextEntry {
  key @0 :Text;
  value @1 :Float64;
  count @2 :UInt64;
}
struct TextMap {
  entries @0 :List(TextEntry);
}
