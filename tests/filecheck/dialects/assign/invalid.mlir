// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %x[i + 1] = 1.0 over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: index i + 1 runs from 1 to 4, outside axis 0 of size 4

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4x5xf32>
  assign.accum %x[i, j] = %x[j, i] over (i = 4, j = 5)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: index j runs from 0 to 4, outside axis 0 of size 4

// -----

// A static index runs over its range.
assign.routine @r indices (n = 5) {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %x[i] = %x[n] over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: index n runs from 0 to 4, outside axis 0 of size 4

// -----

assign.routine @r indices (n) {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %x[i] = %x[m] over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: `m` is neither an iteration variable nor a static index here

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %x[] = 1.0 over ()
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: 0 indices for 1 axes

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4x4xf32>
  assign.accum %x[i, i] = %x[i] over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: 1 indices for 2 axes

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %x[i] div= %x[i] over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: `div` is not an accumulation, expected one of add, mul, or, and, max, min

// -----

// A reduction accumulates.
assign.routine @r {
  %x = assign.node "x" on_device : memref<f32>
  %y = assign.node "y" on_device : memref<4xf32>
  assign.accum %x[] := %y[i] over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: a reduction over `i` needs an accumulation, such as `add=`

// -----

assign.routine @r indices (i) {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %x[i] = 1.0 over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: `i` is a static index of the routine, and no iteration variable

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4x4xf32>
  assign.range %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.range`: a range has one axis

// -----

assign.routine @r {
  %e = assign.embed n : f32
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.embed`: `n` is neither an iteration variable nor a static index here

// -----

assign.routine @r indices (n) {
  %e = assign.embed n : f32
  assign.accum %e[] = 1.0 over ()
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: operand 'lhs' at position 0 does not verify:
// CHECK-NEXT: f32 should be of base attribute memref

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  %y = assign.node "x" on_device : memref<4xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.routine`: two nodes are called 'x'

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<?xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: a node's sizes are static

// -----

assign.routine @r {
  %x = assign.node "x" on_device at 64 : memref<4xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: only a local node has a place in the arena, this one is on_device

// -----

// Nothing else stands in a routine.
assign.routine @r {
  %x = arith.constant 1.0 : f32
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.routine`: `arith.constant` is no part of an assign.routine

// -----

assign.routine @r indices (n, n) {
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.routine`: a static index is declared twice

// -----

// What only the generic format can say.
"assign.routine"() <{sym_name = "r", indices = #assign.indices()}> ({
  %x = "assign.node"() <{label = "x", mode = "remote", why = ""}> : () -> memref<4xf32>
}) : () -> ()

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: unknown memory mode `remote`, expected one of ('virtual', 'local', 'on_device', 'constant', 'kept')

// -----

"assign.routine"() <{sym_name = "r", indices = #assign.indices()}> ({
  %x = "assign.node"() <{label = "x", mode = "local", why = "", offset = #builtin.int<-8>}> : () -> memref<4xf32>
}) : () -> ()

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: a place in the arena is not negative, found -8

// -----

assign.routine @r {
  %x = assign.node "x" on_device always_inline : memref<4xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: only a local node is inlined, this one is on_device

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  "assign.accum"(%x, %x) <{term = #assign.term<@a1>, lhs_map = #assign.map<[i]>, rhs_maps = [#assign.map<[i]>], space = #assign.space<(i = 4)>}> : (memref<4xf32>, memref<4xf32>) -> ()
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: a term first reads its operands in order, and reads all; @a1 does not, of 1

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  "assign.accum"(%x, %x) <{term = #assign.term<@a0>, lhs_map = #assign.map<[i]>, rhs_maps = [#assign.map<[i]>, #assign.map<[i]>], space = #assign.space<(i = 4)>}> : (memref<4xf32>, memref<4xf32>) -> ()
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: 2 index maps for 1 operands

// -----

assign.routine @r indices (n) {
  %x = "assign.embed"() <{indices = #assign.map<[n, n]>}> : () -> f32
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.embed`: expected one index expression, found 2

// -----

assign.routine @r indices (s) {
  %x = assign.node "x" on_device : memref<4xi64>
  %s = assign.embed s : i64
  assign.uniform %x "u" at %s
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.uniform`: random numbers are floats, found i64

// -----

func.func @f(%c : i64) {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.uniform %x "u" at %c
  func.return
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.uniform`: a counter is a node or an embedded index

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4xf32>
  assign.uniform %x "u" at %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.uniform`: a counter is one number, found memref<4xf32>

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<4x9223372036854775808xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: a node's sizes are at most 9223372036854775807

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<3xtf32>
  assign.accum %x[i] := 1.0 over (i = 3)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: the elements of a node are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found tf32

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<3xi7>
  assign.accum %x[i] := 1.0 over (i = 3)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: the elements of a node are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found i7

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<3xui64>
  assign.accum %x[i] := 1.0 over (i = 3)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: the elements of a node are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found ui64

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<3xindex>
  assign.accum %x[i] := 1.0 over (i = 3)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: the elements of a node are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found index

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<3xf32, strided<[1], offset: 5>>
  assign.accum %x[i] := 1.0 over (i = 3)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: the elements of a node lie row by row, found the layout strided<[1], offset: 5>

// -----

assign.routine @r {
  %x = assign.node "x" on_device : memref<3xf32, 1 : i32>
  assign.accum %x[i] := 1.0 over (i = 3)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: a node has no memory space, found 1 : i32

// -----

assign.routine @r {
  %x = assign.node "x" constant : memref<4xf32>
  assign.accum %x[i] = 1.0 over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: 'x' is constant, which no routine writes

// -----

assign.routine @r {
  %x = assign.node "x" constant : memref<4xf32>
  assign.range %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.range`: 'x' is constant, which no routine writes

// -----

assign.routine @r {
  %x = assign.node "x" constant : memref<4xf32>
  %n = assign.node "n" on_device : memref<f32>
  assign.uniform %x "u#1" at %n
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.uniform`: 'x' is constant, which no routine writes

// -----

assign.routine @r indices (data.rank = 2) mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %y = assign.node "y" constant : memref<2x4xf32>
  assign.collective all_gather %y from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.collective`: 'y' is constant, which no routine writes

// -----

assign.routine @r indices (data.rank = 4) mesh (data = 4) {
  %x = assign.node "x" on_device split 2 of 10 over "data" : memref<3x6xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: there are 2 axes, and none is number 2 to split

// -----

assign.routine @r indices (data.rank = 4) mesh (data = 4) {
  %x = assign.node "x" on_device split 0 of 99 over "data" : memref<3x6xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.node`: 4 ranks have parts of 25 of 99 along axis 0, found 3

// -----

assign.routine @r {
  %z = assign.node "z" virtual : memref<4xf32>
  assign.accum %z[i] = 1 over (i = 4)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.accum`: 'z' is virtual, without memory to write

// -----

assign.routine @r {
  %y = assign.node "y" on_device : memref<4xf32>
  assign.accum %y[i + 1] = %y[i] over (i = 3)
}

// CHECK: `assign.accum`: the point i = 1 reads an element that the point i = 0 sets, and points have no order

// -----

assign.routine @r {
  %y = assign.node "y" on_device : memref<4x4xf32>
  assign.accum %y[i, j] add= mul(%y[i, k], %y[k, j]) over (i = 4, j = 4, k = 4)
}

// CHECK: `assign.accum`: the point i = 0, j = 1 reads an element that the point i = 0, j = 0 sets

// -----

assign.routine @r {
  %y = assign.node "y" on_device : memref<4xf32>
  assign.accum %y[i] := add(%y[i], 1) over (i = 3)
}

// CHECK: `assign.accum`: the node is reset before it is read
