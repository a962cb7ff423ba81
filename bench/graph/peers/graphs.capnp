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

# The package graph. Numbers of other objects are their place in the graph's list + 1; 0 is none.
struct Field {
  name @0 :Text;
  value @1 :Text;
}
struct Dependency {
  target @0 :UInt32;
  architecture @1 :UInt32;
  version @2 :Text;
  kind @3 :UInt8;
  relation @4 :UInt8;
  orNext @5 :Bool;
}
struct Provision {
  package @0 :UInt32;
  version @1 :Text;
}
struct Version {
  maintainer @0 :UInt32;
  architecture @1 :UInt32;
  number @2 :Text;
  section @3 :Text;
  priority @4 :Text;
  status @5 :Text;
  source @6 :Text;
  homepage @7 :Text;
  summary @8 :Text;
  description @9 :Text;
  installedKib @10 :UInt64;
  multiArch @11 :UInt8;
  essential @12 :Bool;
  dependencies @13 :List(Dependency);
  provisions @14 :List(Provision);
  otherFields @15 :List(Field);
}
struct Package {
  name @0 :Text;
  versions @1 :List(Version);
  providedBy @2 :List(UInt32);
  requiredBy @3 :List(UInt32);
}
struct Maintainer {
  name @0 :Text;
  email @1 :Text;
  packages @2 :List(UInt32);
}
struct Architecture {
  name @0 :Text;
}
struct Graph {
  packages @0 :List(Package);
  maintainers @1 :List(Maintainer);
  architectures @2 :List(Architecture);
}
