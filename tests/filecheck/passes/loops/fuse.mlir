// RUN: ocannl-opt %s --split-input-file -p fuse | filecheck %s

// Two nests over the same points, written with other names and in another order. `h` is not loaded again.
// CHECK-LABEL: loops.func @renamed_and_transposed
// CHECK:         "h" virtual
// CHECK:         loops.nest "h .. out" (b = 2, o = 3) {
// CHECK-NEXT:      %v = loops.load %x[b, o]
// CHECK-NEXT:      %e = math.exp %v : f32
// CHECK-NEXT:      %r = loops.reduce add (o1 = 2) : f32 {
// CHECK-NEXT:        %w = loops.load %x[o1, o]
// CHECK-NEXT:        %p = arith.mulf %e, %w : f32
// CHECK-NEXT:        loops.yield %p
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %r, %out[o, b]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @renamed_and_transposed {
  %x = assign.node "x" on_device : memref<2x3xf32>
  %h = assign.node "h" local because "intermediate value" : memref<2x3xf32>
  %out = assign.node "out" on_device : memref<3x2xf32>
  loops.nest "h" (b = 2, o = 3) {
    %v = loops.load %x[b, o]
    %e = math.exp %v : f32
    loops.store %e, %h[b, o]
  }
  loops.nest "out" (i = 3, j = 2) {
    %r = loops.reduce add (o = 2) : f32 {
      %v = loops.load %h[j, i]
      %w = loops.load %x[o, i]
      %p = arith.mulf %v, %w : f32
      loops.yield %p
    }
    loops.store %r, %out[i, j]
  }
}

// -----

// A value that other points read cannot be passed on inside a nest.
// CHECK-LABEL: loops.func @other_points
// CHECK:         loops.nest "h" (i = 3)
// CHECK:         loops.nest "reversed" (i = 3)
// CHECK:         loops.nest "summed" (i = 3)
loops.func @other_points {
  %x = assign.node "x" on_device : memref<3xf32>
  %h = assign.node "h" on_device : memref<3xf32>
  %reversed = assign.node "reversed" on_device : memref<3xf32>
  %summed = assign.node "summed" on_device : memref<3xf32>
  loops.nest "h" (i = 3) {
    %v = loops.load %x[i]
    loops.store %v, %h[i]
  }
  loops.nest "reversed" (i = 3) {
    %v = loops.load %h[-i + 2]
    loops.store %v, %reversed[i]
  }
  loops.nest "summed" (i = 3) {
    %0 = loops.reduce add (j = 3) : f32 {
      %v = loops.load %reversed[j]
      loops.yield %v
    }
    loops.store %0, %summed[i]
  }
}

// -----

// `b` moves up past a nest that it does not depend on; `c` must not overtake what writes `scale`, nor what writes
// `b` may be overtaken by that.
// CHECK-LABEL: loops.func @moving_up
// CHECK:         loops.nest "a .. b" (i = 3)
// CHECK:         loops.nest "other" (i = 2)
// CHECK:         loops.nest "scale" (i = 2)
// CHECK:         loops.nest "c" (i = 3)
loops.func @moving_up {
  %x = assign.node "x" on_device : memref<3xf32>
  %other = assign.node "other" on_device : memref<2xf32>
  %scale = assign.node "scale" on_device : memref<2xf32>
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  %c = assign.node "c" on_device : memref<3xf32>
  loops.nest "a" (i = 3) {
    %v = loops.load %x[i]
    loops.store %v, %a[i]
  }
  loops.nest "other" (i = 2) {
    %v = loops.load %x[i]
    loops.store %v, %other[i]
  }
  loops.nest "b" (i = 3) {
    %v = loops.load %a[i]
    %n = arith.negf %v : f32
    loops.store %n, %b[i]
  }
  loops.nest "scale" (i = 2) {
    %v = loops.load %b[i]
    %n = arith.negf %v : f32
    loops.store %n, %scale[i]
  }
  loops.nest "c" (i = 3) {
    %v = loops.load %a[i]
    %s = loops.load %scale[0]
    %p = arith.mulf %v, %s : f32
    loops.store %p, %c[i]
  }
}

// -----

// The gradient of `w` moves down to the update, past the last reader of the old `w`.
// CHECK-LABEL: loops.func @moving_down
// CHECK:         "w.grad" virtual
// CHECK-NOT:     loops.nest "w.grad"
// CHECK:         loops.nest "x.grad" (b = 2)
// CHECK:         loops.nest "w.grad .. w" (i = 3)
// CHECK:         loops.reduce
// CHECK:         loops.load %w[i]
// CHECK:         arith.subf
// CHECK-NEXT:    loops.store %{{.*}}, %w[i]
loops.func @moving_down {
  %x = assign.node "x" on_device : memref<2x3xf32>
  %adjoint = assign.node "adjoint" on_device : memref<2xf32>
  %w = assign.node "w" on_device because "parameter" : memref<3xf32>
  %g = assign.node "w.grad" local because "gradient" : memref<3xf32>
  %xg = assign.node "x.grad" on_device : memref<2xf32>
  loops.nest "w.grad" (i = 3) {
    %0 = loops.reduce add (b = 2) : f32 {
      %v = loops.load %x[b, i]
      %a = loops.load %adjoint[b]
      %p = arith.mulf %v, %a : f32
      loops.yield %p
    }
    loops.store %0, %g[i]
  }
  loops.nest "x.grad" (b = 2) {
    %a = loops.load %adjoint[b]
    %v = loops.load %w[b]
    %p = arith.mulf %v, %a : f32
    loops.store %p, %xg[b]
  }
  loops.nest "w" (i = 3) {
    %v = loops.load %w[i]
    %d = loops.load %g[i]
    %s = arith.subf %v, %d : f32
    loops.store %s, %w[i]
  }
}

// -----

// Two large contractions keep their nests, also where they share data; a pointwise neighbour joins one.
// CHECK-LABEL: loops.func @contractions
// CHECK:         loops.nest "p .. bias" (i = 64, j = 64)
// CHECK:         loops.nest "q" (i = 64, j = 64)
loops.func @contractions {
  %x = assign.node "x" on_device : memref<64x64xf32>
  %y = assign.node "y" on_device : memref<64x64xf32>
  %p = assign.node "p" on_device : memref<64x64xf32>
  %q = assign.node "q" on_device : memref<64x64xf32>
  loops.nest "p" (i = 64, j = 64) {
    %0 = loops.reduce add (k = 64) : f32 {
      %v = loops.load %x[i, k]
      %w = loops.load %y[k, j]
      %m = arith.mulf %v, %w : f32
      loops.yield %m
    }
    loops.store %0, %p[i, j]
  }
  loops.nest "bias" (i = 64, j = 64) {
    %v = loops.load %p[i, j]
    %one = arith.constant 1.0 : f32
    %s = arith.addf %v, %one : f32
    loops.store %s, %p[i, j]
  }
  loops.nest "q" (i = 64, j = 64) {
    %0 = loops.reduce add (k = 64) : f32 {
      %v = loops.load %x[k, i]
      %w = loops.load %y[k, j]
      %m = arith.mulf %v, %w : f32
      loops.yield %m
    }
    %v = loops.load %p[i, j]
    %s = arith.addf %v, %0 : f32
    loops.store %s, %q[i, j]
  }
}

// -----

// Scalars fuse also where they have nothing in common; larger nests only to share what they load.
// CHECK-LABEL: loops.func @nothing_shared
// CHECK:         loops.nest "a" (i = 3)
// CHECK:         loops.nest "b" (i = 3)
// CHECK:         loops.nest "c .. d" ()
loops.func @nothing_shared {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  %c = assign.node "c" on_device : memref<f32>
  %d = assign.node "d" on_device : memref<1xf32>
  loops.nest "a" (i = 3) {
    %one = arith.constant 1.0 : f32
    loops.store %one, %a[i]
  }
  loops.nest "b" (i = 3) {
    %two = arith.constant 2.0 : f32
    loops.store %two, %b[i]
  }
  loops.nest "c" () {
    %one = arith.constant 1.0 : f32
    loops.store %one, %c[]
  }
  loops.nest "d" (i = 1) {
    %two = arith.constant 2.0 : f32
    loops.store %two, %d[i]
  }
}

// -----

// A nest with a schedule stays as it was written.
// CHECK-LABEL: loops.func @scheduled
// CHECK:         loops.nest "a" (i = 3) schedule <lanes = i : 4>
// CHECK:         loops.nest "b" (i = 3) {
loops.func @scheduled {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<3xf32>
  loops.nest "a" (i = 3) schedule <lanes = i : 4> {
    %one = arith.constant 1.0 : f32
    loops.store %one, %a[i]
  }
  loops.nest "b" (i = 3) {
    %v = loops.load %a[i]
    loops.store %v, %b[i]
  }
}

// -----

// A cell that several points add to is complete at the end of the nest only: nothing is fused with it.
// CHECK-LABEL: loops.func @cells_written_in_turn
// CHECK:         loops.nest "x reset" (i = 6) {
// CHECK:         loops.nest "x" (k = 3, o = 4) {
// CHECK:           %old = loops.load %x[k + o]
// CHECK:         loops.nest "y" (k = 3, o = 4) {
// CHECK-NEXT:      %v{{.*}} = loops.load %x[k + o]
loops.func @cells_written_in_turn {
  %g = assign.node "g" on_device : memref<4xf32>
  %x = assign.node "x" local because "intermediate value" : memref<6xf32>
  %y = assign.node "y" on_device : memref<3x4xf32>
  loops.nest "x reset" (i = 6) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[i]
  }
  loops.nest "x" (k = 3, o = 4) {
    %v = loops.load %g[o]
    %old = loops.load %x[k + o]
    %new = arith.addf %old, %v : f32
    loops.store %new, %x[k + o]
  }
  loops.nest "y" (k = 3, o = 4) {
    %v = loops.load %x[k + o]
    loops.store %v, %y[k, o]
  }
}

// -----

// Random numbers stay out of contractions, whose tile would repeat their long code; the mask joins its reader.
// CHECK-LABEL: loops.func @random_numbers
// CHECK:         loops.nest "h" (b = 64, o = 64) {
// CHECK:         loops.nest "mask .. y" (b = 64, o = 64) {
// CHECK:           loops.uniform
loops.func @random_numbers indices (step_n) {
  %w = assign.node "w" on_device : memref<64x64xf32>
  %x = assign.node "x" constant : memref<64x64xf32>
  %h = assign.node "h" on_device : memref<64x64xf32>
  %m = assign.node "m" local because "intermediate value" : memref<64x64xf32>
  %y = assign.node "y" on_device : memref<64x64xf32>
  loops.nest "h" (b = 64, o = 64) {
    %s = loops.reduce add (i = 64) : f32 {
      %a = loops.load %w[o, i]
      %c = loops.load %x[b, i]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %h[b, o]
  }
  loops.nest "mask" (b = 64, o = 64) {
    %place = loops.index 64*b + o : i32
    %n = loops.index step_n : i64
    %u = loops.uniform "u#1" %place at %n : f32
    loops.store %u, %m[b, o]
  }
  loops.nest "y" (b = 64, o = 64) {
    %v = loops.load %h[b, o]
    %k = loops.load %m[b, o]
    %r = arith.mulf %v, %k : f32
    loops.store %r, %y[b, o]
  }
}

// -----

// Nests that write different cells of a node at all points do not disturb each other.
// CHECK-LABEL: loops.func @cells_apart
// CHECK:         loops.nest "y" (i = 8) {
// CHECK:           loops.store %v, %y[0, i]
// CHECK:           loops.store %n, %y[1, i]
// CHECK-NOT:     loops.nest
loops.func @cells_apart {
  %x = assign.node "x" on_device : memref<8xf32>
  %y = assign.node "y" on_device : memref<2x8xf32>
  loops.nest "y" (i = 8) {
    %v = loops.load %x[i]
    loops.store %v, %y[0, i]
  }
  loops.nest "y" (k = 8) {
    %v = loops.load %x[k]
    %n = arith.negf %v : f32
    loops.store %n, %y[1, k]
  }
}

// -----

// Here the first nest reads at one point what the second one writes at another.
// CHECK-LABEL: loops.func @cells_that_meet
// CHECK:         loops.nest "z" (i = 7)
// CHECK:         loops.nest "y" (k = 7)
loops.func @cells_that_meet {
  %x = assign.node "x" on_device : memref<8xf32>
  %y = assign.node "y" on_device : memref<2x8xf32>
  %z = assign.node "z" on_device : memref<8xf32>
  loops.nest "z" (i = 7) {
    %v = loops.load %x[i]
    %w = loops.load %y[1, i + 1]
    %s = arith.addf %v, %w : f32
    loops.store %s, %z[i]
  }
  loops.nest "y" (k = 7) {
    %v = loops.load %x[k]
    loops.store %v, %y[1, k]
  }
}

// -----

// What is stacked side by side: alone, no nest stores whole cache lines.
// CHECK-LABEL: loops.func @stacked
// CHECK:         loops.nest "y" (i = 16) {
// CHECK-NEXT:      %0 = loops.load %a[i]
// CHECK-NEXT:      loops.store %0, %y[i, 0]
// CHECK-NEXT:      %1 = loops.load %b[i]
// CHECK-NEXT:      loops.store %1, %y[i, 1]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @stacked {
  %a = assign.node "a" constant : memref<16xf32>
  %b = assign.node "b" constant : memref<16xf32>
  %y = assign.node "y" on_device : memref<16x2xf32>
  loops.nest "y" (i = 16) {
    %0 = loops.load %a[i]
    loops.store %0, %y[i, 0]
  }
  loops.nest "y" (j = 16) {
    %1 = loops.load %b[j]
    loops.store %1, %y[j, 1]
  }
}

// -----

// One above the other, each nest has its own lines.
// CHECK-LABEL: loops.func @above
// CHECK-COUNT-2: loops.nest "y" (i = 16) {
loops.func @above {
  %a = assign.node "a" constant : memref<16xf32>
  %b = assign.node "b" constant : memref<16xf32>
  %y = assign.node "y" on_device : memref<2x16xf32>
  loops.nest "y" (i = 16) {
    %0 = loops.load %a[i]
    loops.store %0, %y[0, i]
  }
  loops.nest "y" (i = 16) {
    %1 = loops.load %b[i]
    loops.store %1, %y[1, i]
  }
}

// -----

// An exchange that is waited for stays, and one whose target nobody reads goes.
// CHECK-LABEL: loops.func @exchanged
// CHECK:         loops.collective start all_gather %rows
// CHECK-NEXT:    loops.collective wait all_gather %rows
// CHECK-NOT:     loops.collective
// CHECK:         loops.nest "y"
loops.func @exchanged indices (data.rank = 2) mesh (data = 2) {
  %part = assign.node "part" constant : memref<8xf32>
  %rows = assign.node "rows" local : memref<2x8xf32>
  %unread = assign.node "unread" local : memref<2x8xf32>
  %y = assign.node "y" on_device : memref<8xf32>
  loops.collective start all_gather %rows from %part over "data"
  loops.collective wait all_gather %rows from %part over "data"
  loops.collective start all_gather %unread from %part over "data"
  loops.collective wait all_gather %unread from %part over "data"
  loops.nest "y" (i = 8) {
    %sum = loops.reduce add (r = 2) : f32 {
      %term = loops.load %rows[r, i]
      loops.yield %term
    }
    loops.store %sum, %y[i]
  }
}
