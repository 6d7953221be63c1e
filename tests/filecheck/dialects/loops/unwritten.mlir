// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

loops.func @nothing_written {
  %t = assign.node "t" local : memref<4xf32>
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "x" (i = 4) {
    %l = loops.load %t[i]
    loops.store %l, %x[i]
  }
}

// CHECK: :7:5: `loops.load`: 't' lives inside a run, and is read before anything has written it

// -----

loops.func @too_short {
  %t = assign.node "t" local : memref<4x8xf32>
  %x = assign.node "x" on_device : memref<8xf32>
  loops.nest "t" (i = 4, j = 6) {
    %l = loops.load %x[j]
    loops.store %l, %t[i, j]
  }
  loops.nest "x" (j = 8) {
    %s = loops.reduce add (i = 4) : f32 {
      %l = loops.load %t[i, j]
      loops.yield %l
    }
    loops.store %s, %x[j]
  }
}

// CHECK: `loops.load`: cell [3, 7] of 't' lives inside a run, and is read before anything has written it

// -----

loops.func @every_second {
  %t = assign.node "t" local : memref<9xf32>
  %x = assign.node "x" on_device : memref<9xf32>
  loops.nest "t" (i = 5) {
    %l = loops.load %x[i]
    loops.store %l, %t[2*i]
  }
  loops.nest "x" (i = 9) {
    %l = loops.load %t[i]
    loops.store %l, %x[i]
  }
}

// CHECK: `loops.load`: one of 9 cells of 't' lives inside a run

// -----

loops.func @sum_of_nothing {
  %t = assign.node "t" local : memref<4xf32>
  %x = assign.node "x" on_device : memref<4xf32>
  loops.nest "t" (i = 4, k = 3) {
    %old = loops.load %t[i]
    %l = loops.load %x[k]
    %s = arith.addf %old, %l : f32
    loops.store %s, %t[i]
  }
}

// CHECK: `loops.load`: 't' lives inside a run

// -----

loops.func @of_a_point {
  %x = assign.node "x" on_device : memref<4xf32>
  loops.group "g" (b = 4) {
    %t = assign.node "t" local : memref<2xf32>
    loops.nest "t" () {
      %l = loops.load %x[b]
      loops.store %l, %t[0]
    }
    loops.nest "x" () {
      %l = loops.load %t[1]
      loops.store %l, %x[b]
    }
  }
}

// CHECK: `loops.load`: cell [1] of 't' lives inside a run

// -----

loops.func @body indices (t = 5) {
  %h = assign.node "h" on_device : memref<4xf32>
  loops.nest "h" (i = 4) {
    %l = loops.load %h[i]
    %s = arith.addf %l, %l : f32
    loops.store %s, %h[i]
  }
}
loops.func @carry {
  %h = assign.node "h" local : memref<4xf32>
  loops.repeat @body t = 5 ("h" = %h)
}

// CHECK: `loops.repeat`: 'h' lives inside a run

// -----

// A loop writes before it reads: nothing has to be there before, and all is there behind it.
loops.func @stacking indices (t = 5) {
  %h = assign.node "h" on_device : memref<5xf32>
  %x = assign.node "x" on_device : memref<5xf32>
  loops.nest "h" () {
    %l = loops.load %x[t]
    loops.store %l, %h[t]
  }
  loops.nest "x" () {
    %l = loops.load %h[t]
    loops.store %l, %x[t]
  }
}
loops.func @stacked {
  %h = assign.node "h" local : memref<5xf32>
  %x = assign.node "x" on_device : memref<5xf32>
  loops.repeat @stacking t = 5 ("h" = %h, "x" = %x)
  loops.nest "x" (i = 5) {
    %l = loops.load %h[i]
    loops.store %l, %x[i]
  }
}

// CHECK: loops.func @stacked

// -----

assign.routine @first {
  %t = assign.node "t" local : memref<4xf32>
  assign.accum %t[i] add= 1 over (i = 4)
}

// CHECK: `assign.accum`: 't' lives inside a run

// -----

assign.routine @half {
  %t = assign.node "t" local : memref<4xf32>
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %t[i] = 1 over (i = 2)
  assign.accum %x[i] = %t[i] over (i = 4)
}

// CHECK: `assign.accum`: cell [3] of 't' lives inside a run

// -----

assign.routine @others_are_zero {
  %t = assign.node "t" local : memref<4xf32>
  %x = assign.node "x" on_device : memref<4xf32>
  assign.accum %t[i] := 1 over (i = 2)
  assign.accum %x[i] = %t[i] over (i = 4)
}

// CHECK: assign.routine @others_are_zero
