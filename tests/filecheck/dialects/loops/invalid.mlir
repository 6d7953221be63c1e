// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x[2*i]
    loops.store %l, %x[i]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: index 2*i runs from 0 to 6, outside axis 0 of size 4

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x[i]
    loops.store %l, %x[i - 1]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: index i - 1 runs from -1 to 2, outside axis 0 of size 4

// -----

loops.func @f indices (n = 9) {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x[n]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: index n runs from 0 to 8, outside axis 0 of size 4

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x[j]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: `j` is neither an iteration variable nor a static index here

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %x[i, i]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: 2 indices for 1 axes

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %n = loops.index j : f32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.index`: `j` is neither an iteration variable nor a static index here

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %n = loops.index i : i8
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.index`: an index becomes a number of type f32, f64, i32 or i64, found i8

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %n = loops.index i : i64
    %r = loops.remainder %n, %n : i64
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.remainder`: a remainder is of two f32 or two f64

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %n = loops.index i : f32
    %far = arith.constant true
    %r = loops.far %far sine(%n, %n) else %n : f32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.far`: the functions are sine of 1, cosine of 1, remainder of 2; found sine of 2

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %n = loops.index i : f32
    %m = loops.index i : f64
    %far = arith.constant true
    %r = loops.far %far remainder(%n, %m) else %n : f32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.far`: the numbers are all of f32, or all of f64

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %n = loops.index i : i64
    %u = loops.uniform "u" %n at %n : i32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.uniform`: random numbers are f32 or f64, found i32

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %n = loops.index i : i64
    %x = loops.index i : f32
    %u = loops.uniform "u" %x at %n : f32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.uniform`: a place is an i32 or an i64, found f32

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %n = loops.index i : i32
    %u = loops.uniform "u" %n at %n : f32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.uniform`: a counter is an i64, found i32

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %c = arith.constant 1.0 : f64
    loops.store %c, %x[i]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: stores f64 into a node of f32{{$}}

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<i1>
  loops.nest "x" () {
    %c = arith.constant true
    loops.store %c, %x[]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: stores i1 into a node of i1: they are loaded and stored as i8

// -----

// The variable of a reduction is known inside of it.
loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" () {
    %t = loops.reduce add (k = 4) : f32 {
      %l = loops.load %x[k]
      loops.yield %l
    }
    loops.store %t, %x[k]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: `k` is neither an iteration variable nor a static index here

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %t = loops.reduce add (k = 4) : f32 {
      %l = loops.load %x[k]
      loops.store %l, %x[k]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: a store stands directly in a nest

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %t = loops.reduce add (k = 4) : f32 {
      %l = loops.load %x[k]
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: a reduction ends in loops.yield

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %t = loops.reduce add (k = 4) : f32 {
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: Region 'body' at position 0 expected a single block, but got 0 blocks

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf64>
  loops.nest "x" (i = 4) {
    %t = loops.reduce add (k = 4) : f32 {
      %l = loops.load %x[k]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: yields f64, but the result is f32

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %t = loops.reduce sub (k = 4) : f32 {
      %l = loops.load %x[k]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: `sub` is not an accumulation, expected one of add, mul, or, and, max, min

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %t = loops.reduce add (i = 4) : f32 {
      %l = loops.load %x[i]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: `i` is already an iteration variable around it

// -----

loops.func @f indices (i) {
  loops.nest "x" (i = 4) {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: `i` is a static index of the routine, and no iteration variable

// -----

loops.func @f indices (k) {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %t = loops.reduce add (k = 4) : f32 {
      %l = loops.load %x[i]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: `k` is a static index of the routine, and no iteration variable

// -----

loops.func @f {
  loops.nest "outer" (i = 4) {
    loops.nest "inner" (j = 4) {
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a nest stands in a loops.func

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
  ^bb0(%a : f32):
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: the block has no arguments: variables are named in the space, nodes are declared

// -----

// Schedules speak of the nest's variables.
loops.func @f {
  loops.nest "x" (i = 4, j = 4) schedule <order = (i)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: the schedule's order ('i',) is no permutation of the nest's variables

// -----

loops.func @f {
  loops.nest "x" (i = 4, j = 4) schedule <order = (i, j, i)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: the schedule's order ('i', 'j', 'i') is no permutation of the nest's variables

// -----

loops.func @f {
  loops.nest "x" (i = 4, j = 4) schedule <order = (i, k)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: the schedule's order ('i', 'k') is no permutation of the nest's variables

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <rows = k : 2> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: rows `k` is not a variable of the nest

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <lanes = k : 2> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: lanes `k` is not a variable of the nest or its reductions

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <rows = i : 2, lanes = i : 2> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: rows and lanes are different variables

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <lanes = i : 0> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a tile has at least one element

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  %y = assign.node "x" on_device : memref<4xf32>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: two nodes are called 'x'

// -----

// What only the generic format can say.
loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = "loops.load"(%x) <{indices = #assign.map<[i]>}> : (memref<4xf32>) -> f64
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: loads f64 from a node of f32

// -----

loops.func @f indices (n) {
  loops.nest "x" () {
    %l = "loops.index"() <{indices = #assign.map<[]>}> : () -> f32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.index`: expected one index expression, found 0

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<6xf32>
  loops.nest "x" (o = 4, k = 3) schedule <rows = k : 3, lanes = o : 4> {
    %old = loops.load %x[o + k]
    loops.store %old, %x[o + k]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: points that differ in `k`, `o` store to the same cell, so run in turn

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<6xf32>
  loops.nest "x" (o = 6, k = 3) schedule <lanes = k : 4> {
    %old = loops.load %x[o]
    loops.store %old, %x[o]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: points that differ in `k` store to the same cell, so run in turn

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4x3xf32>
  loops.nest "x" (i = 4, j = 3) schedule <merged = (j*i)> {
    %old = loops.load %x[i, j]
    loops.store %old, %x[i, j]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: an access does not move by equal steps along `j*i`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4x3xf32>
  loops.nest "x" (i = 4, j = 3) schedule <chains = 0> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a reduction has at least one chain

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4x3xf32>
  loops.nest "x" (i = 4, j = 3) schedule <merged = (i*j, j*i)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a variable stands twice in the schedule's `merged`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4x3xf32>
  loops.nest "x" (i = 4) schedule <merged = (i*j)> {
    %s = loops.reduce add (j = 3) : f32 {
      %old = loops.load %x[i, j]
      loops.yield %old
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: merged `i*j` is no group of variables of one space

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4x3xf32>
  loops.nest "x" (i = 4, j = 3) schedule <merged = (i*j), lanes = j : 4> {
    %old = loops.load %x[i, j]
    loops.store %old, %x[i, j]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: lanes `j` is not a variable of the nest or its reductions

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <parallel = (j : 2)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: parallel `j` is not a variable of the nest

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <parallel = (i : 2, i : 1)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a variable stands twice in the schedule's `parallel`

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <parallel = (i : 0)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a parallel block of `i` has whole tiles of 1, found 0

// -----

loops.func @f {
  loops.nest "x" (i = 40, j = 16) schedule <parallel = (j : 8, i : 12), rows = i : 8, lanes = j : 8> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a parallel block of `i` has whole tiles of 8, found 12

// -----

loops.func @f {
  loops.nest "x" (i = 4) schedule <strips = j : 2> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: strips `j` is not a variable of the nest

// -----

loops.func @f {
  loops.nest "x" (i = 40) schedule <rows = i : 8, strips = i : 12> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a strip of `i` has whole tiles of 8, found 12

// -----

loops.func @f {
  loops.nest "x" (i = 40) schedule <strips = i : 0> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a strip of `i` has whole tiles of 1, found 0

// -----

loops.func @f {
  loops.nest "x" (i = 40) schedule <parallel = (i : 16), rows = i : 8, strips = i : 24> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a parallel block of `i` has whole strips of 24, found 16

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<6xf32>
  loops.nest "x" (o = 4, k = 3) schedule <strips = o : 2> {
    %old = loops.load %x[o + k]
    loops.store %old, %x[o + k]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: points that differ in `o` store to the same cell, so run in turn

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<6xf32>
  loops.nest "x" (o = 4, k = 3) schedule <parallel = (o : 2)> {
    %old = loops.load %x[o + k]
    loops.store %old, %x[o + k]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: points that differ in `o` store to the same cell, so run in turn

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.group "x" (i = 4) {
    loops.nest "x" (i = 4) {
      %l = loops.load %x[i]
      loops.store %l, %x[i]
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: `i` is already an iteration variable around it

// -----

loops.func @f {
  loops.group "x" (i = 4) {
    %x = assign.node "x" on_device : memref<4xf32>
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.group`: node 'x' lives inside a point of the group: it is local, without a place

// -----

loops.func @f {
  loops.group "x" (i = 4) {
    loops.group "y" (j = 4) {
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.group`: a group has nodes and nests, found `loops.group`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.group "a" (i = 4) {
    %y = assign.node "x" local : memref<4xf32>
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: two nodes are called 'x'

// -----

loops.func @f {
  loops.group "x" (b = 4) schedule <parallel = (i : 2)> {
    loops.nest "x" (i = 4) {
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.group`: parallel `i` is not a variable of the group

// -----

loops.func @f {
  loops.group "x" (b = 4) schedule <order = (b), parallel = (b : 2)> {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.group`: the schedule of a group says what is parallel, nothing else

// -----

loops.func @f {
  loops.group "x" (b = 4) {
    loops.nest "x" (i = 4) schedule <parallel = (i : 2)> {
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: threads share a group, no nest in it

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<6xf32>
  loops.group "x" (b = 4) schedule <parallel = (b : 2)> {
    loops.nest "x" (i = 6) {
      %old = loops.load %x[i]
      loops.store %old, %x[i]
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.group`: points that differ in `b` store to the same cell, so run in turn

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  %ids = assign.node "ids" constant : memref<4xi32>
  loops.nest "x" (i = 4) {
    %id = loops.load %ids[i]
    %v, %inside = loops.position %id below 5
    %l = loops.load %x[%v]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: index at$0 runs from 0 to 4, outside axis 0 of size 4

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  %ids = assign.node "ids" constant : memref<4xi32>
  loops.nest "x" (i = 4) {
    %id = loops.load %ids[i]
    %v, %inside = loops.position %id below 4
    %c = arith.constant 1.0 : f32
    loops.store %c, %x[%v + 1]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: index at$0 + 1 runs from 1 to 4, outside axis 0 of size 4

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %v = arith.constant 1 : index
    %l = loops.load %x[%v]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.load`: a position of an access is found by loops.position

// -----

loops.func @f {
  %ids = assign.node "ids" constant : memref<4xi32>
  loops.nest "x" (i = 4) {
    %id = loops.load %ids[i]
    %v, %inside = loops.position %id below 0
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.position`: an axis without elements has no position

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %id = arith.constant 1 : i8
    %v, %inside = loops.position %id below 4
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.position`: a position is found from a number of 32 or 64 bits, found i8

// -----

loops.func @f {
  loops.nest "x" (at$0 = 4) {
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: `at$0` is the name of a position, and no iteration variable

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4x8xf32>
  %ids = assign.node "ids" constant : memref<4xi32>
  loops.nest "x" (i = 4, d = 8) schedule <lanes = i : 4> {
    %id = loops.load %ids[i]
    %v, %inside = loops.position %id below 4
    %l = loops.load %x[%v, d]
    %n = arith.addf %l, %l : f32
    loops.store %n, %x[%v, d]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: points that differ in `i` store to the same cell, so run in turn

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xbf16>
  loops.nest "x" (i = 4) {
    %a = loops.load %x[i]
    %b = arith.addf %a, %a : bf16
    loops.store %b, %x[i]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: `arith.addf` of bf16, which is only stored: arithmetic is of f32 and f64, so use arith.extf and arith.truncf

// -----

loops.func @f {
  %c = arith.constant 1.0 : f32
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: it has nodes, nests, groups, loops, kernels, collectives, found `arith.constant`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" () {
    %s = loops.reduce max (i = 4) blocks 2 : f32 {
      %l = loops.load %x[i]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: sums of floats have blocks

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" () {
    %s = loops.reduce add (i = 4) blocks 0 : f32 {
      %l = loops.load %x[i]
      loops.yield %l
    }
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.reduce`: a block has at least one step

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    assign.comment "no number"
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a nest computes numbers, found `assign.comment`

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %c = arith.constant dense<1.0> : tensor<2xf32>
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a nest computes numbers, found tensor<2xf32> of `arith.constant`

// -----

loops.func @f {
  %s = assign.node "s" on_device : memref<2xf32>
  loops.nest "x" (i = 4) {
    loops.repeat @f t = 4 ("s" = %s)
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.repeat`: a step stands in a loops.func

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %c = arith.constant 1.0 : f32
    loops.yield %c
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.yield`: what is yielded is yielded to a loops.reduce

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %c = arith.constant 1.0 : tf32
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a nest computes numbers, found tf32 of `arith.constant`

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %c = arith.constant 1 : i128
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a nest computes numbers, found i128 of `arith.constant`

// -----

loops.func @f {
  loops.nest "x" (i = 4) {
    %c = arith.constant 1 : i7
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.nest`: a nest computes numbers, found i7 of `arith.constant`

// -----

loops.func @f mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %rows = assign.node "rows" on_device : memref<2x4xf32>
  loops.collective start all_gather %rows from %x over "data"
  loops.collective wait all_to_all %rows from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: `wait all_to_all` waits for what was not started

// -----

loops.func @f mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %rows = assign.node "rows" on_device : memref<2x4xf32>
  loops.collective wait all_gather %rows from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: `wait all_gather` waits for what was not started

// -----

loops.func @f mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %rows = assign.node "rows" on_device : memref<2x4xf32>
  loops.collective start all_gather %rows from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: `start all_gather` is not waited for

// -----

loops.func @f mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %rows = assign.node "rows" on_device : memref<2x4xf32>
  loops.collective start all_gather %rows from %x over "data"
  loops.nest "x" (i = 4) {
    %l = loops.load %rows[0, i]
    loops.store %l, %x[i]
  }
  loops.collective wait all_gather %rows from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: `loops.nest` touches what `start all_gather` is still receiving

// -----

loops.func @f mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %rows = assign.node "rows" on_device : memref<2x4xf32>
  loops.collective start all_gather %rows from %x over "data"
  loops.nest "x" (i = 4) {
    %l = loops.load %x[i]
    loops.store %l, %x[i]
  }
  loops.collective wait all_gather %rows from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: `loops.nest` writes what `start all_gather` is still sending

// -----

loops.func @f mesh (data = 2) {
  %x = assign.node "x" on_device : memref<4xf32>
  %rows = assign.node "rows" on_device : memref<2x4xf32>
  loops.collective start all_gather %rows from %x over "data"
  loops.collective start all_gather %rows from %x over "data"
  loops.collective wait all_gather %rows from %x over "data"
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.func`: `loops.collective` touches what `start all_gather` is still receiving

// -----

loops.func @f {
  %x = assign.node "x" constant : memref<4xf32>
  loops.nest "x" (i = 4) {
    %c = arith.constant 1.0 : f32
    loops.store %c, %x[i]
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `loops.store`: 'x' is constant, which no routine writes

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %s = loops.reduce add (k = 4) : f32 {
      %l = loops.load %x[k]
      loops.yield %l
    }
    loops.store %s, %x[-i + 3]
  }
}

// CHECK: `loops.store`: the point i = 0 reads an element that the point i = 3 sets, and points have no order

// -----

loops.func @f attributes {arena = 28 : i64} {
  %x = assign.node "x" on_device : memref<8xf32>
  %t = assign.node "t" local at 0 : memref<8xf32>
  loops.nest "t" (i = 8) {
    %l = loops.load %x[i]
    loops.store %l, %t[i]
  }
}

// CHECK: `loops.func`: an arena of 28 bytes has no room for node 't', which ends at 32

// -----

loops.func @f attributes {arena = "32"} {
}

// CHECK: `loops.func`: `arena` is a number of bytes, as `64 : i64`, found "32"

// -----

loops.func @f attributes {arena = 64 : i64} {
  %x = assign.node "x" on_device : memref<8xf32>
  %t = assign.node "t" local at 6 : memref<8xf32>
}

// CHECK: `loops.func`: node 't' of 4 bytes an element is not aligned at 6

// -----

loops.func @fits attributes {arena = 96 : i64} {
  %x = assign.node "x" on_device : memref<8xf32>
  %a = assign.node "a" local at 0 : memref<8xf32>
  %b = assign.node "b" local at 64 : memref<8xf32>
  %c = assign.node "c" local at 16 : memref<4xf32>
  %d = assign.node "d" local at 0 : memref<4xf32>
  loops.nest "a" (i = 8) {
    %l = loops.load %x[i]
    loops.store %l, %a[i]
  }
  loops.nest "b" (i = 8) {
    %l = loops.load %a[i]
    loops.store %l, %b[i]
  }
  loops.nest "d" (i = 4) {
    %l = loops.load %b[i]
    loops.store %l, %d[i]
  }
  loops.nest "c" (i = 4) {
    %l = loops.load %d[i]
    loops.store %l, %c[i]
  }
  loops.nest "x" (i = 8) {
    %r = loops.reduce add (j = 4) : f32 {
      %l = loops.load %c[j]
      loops.yield %l
    }
    loops.store %r, %x[i]
  }
}

// CHECK: loops.func @fits

// -----

loops.func @f attributes {arena = 64 : i64} {
  %x = assign.node "x" on_device : memref<8xf32>
  %a = assign.node "a" local at 0 : memref<8xf32>
  %b = assign.node "b" local at 28 : memref<8xf32>
  loops.nest "a" (i = 8) {
    %l = loops.load %x[i]
    loops.store %l, %a[i]
  }
  loops.nest "b" (i = 8) {
    %r = loops.reduce max (j = 8) : f32 {
      %l = loops.load %a[j]
      loops.yield %l
    }
    loops.store %r, %b[i]
  }
}

// CHECK: `loops.func`: nodes 'a' and 'b' share bytes of the arena, and are in use at the same time

// -----

loops.func @f {
  %x = assign.node "x" constant : memref<10xf32>
  %y = assign.node "y" on_device : memref<10xf32>
  loops.nest "y" (i = 10) {
    %l = loops.load %x[i]
    loops.store %l, %y[i]
    loops.store %l, %y[-i + 9]
  }
}

// CHECK: `loops.store`: the point i = 0 sets an element that the point i = 9 sets, and points have no order

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<10x4xf32>
  %y = assign.node "y" on_device : memref<10x4xf32>
  loops.group "x" (b = 10) {
    loops.nest "y" (i = 4) {
      %l = loops.load %x[b, i]
      loops.store %l, %y[b, i]
    }
    loops.nest "x" (i = 4) {
      %l = loops.load %y[b, -i + 3]
      %r = loops.load %y[-b + 9, i]
      %s = arith.addf %l, %r : f32
      loops.store %s, %x[b, i]
    }
  }
}

// CHECK: `loops.group`: the point b = 0 reads an element that the point b = 9 sets, and points have no order

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<16xf32>
  loops.group "x" (i_block = 4) {
    loops.nest "x" (i = 4) {
      %l = loops.load %x[-i - 4*i_block + 15]
      loops.store %l, %x[i + 4*i_block]
    }
  }
}

// CHECK: `loops.group`: the point i_block = 0 reads an element that the point i_block = 3 sets
