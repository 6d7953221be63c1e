// RUN: ocannl-opt %s --split-input-file -p "nontemporal-stores{l2_bytes=4096 last_level_bytes=32768}" | filecheck %s

// The routine touches 64 KiB until the first nest comes again.
// CHECK-LABEL: loops.func @late
// CHECK:         loops.store %{{.*}}, %y[i, j] nontemporal
loops.func @late {
  %x = assign.node "x" constant because "data" : memref<128x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<128x64xf32>
  loops.nest "y" (i = 128, j = 64) schedule <order = (i, j), lanes = j : 32> {
    %0 = loops.load %x[i, j]
    loops.store %0, %y[i, j]
  }
}

// -----

// `h` is read at once: it and what it is computed from are 16 KiB. `z` is not read before the next run.
// CHECK-LABEL: loops.func @soon
// CHECK:         loops.store %{{.*}}, %h[i]{{$}}
// CHECK:         loops.store %{{.*}}, %y[i]{{$}}
// CHECK:         loops.store %{{.*}}, %z[i] nontemporal
loops.func @soon {
  %x = assign.node "x" constant because "data" : memref<2048xf32>
  %h = assign.node "h" local because "intermediate value" : memref<2048xf32>
  %y = assign.node "y" local because "intermediate value" : memref<2048xf32>
  %v = assign.node "v" constant because "data" : memref<4096xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<4096xf32>
  loops.nest "h" (i = 2048) schedule <order = (i), lanes = i : 64> {
    %0 = loops.load %x[i]
    loops.store %0, %h[i]
  }
  loops.nest "y" (i = 2048) schedule <order = (i), lanes = i : 64> {
    %1 = loops.load %h[-i + 2047]
    loops.store %1, %y[i]
  }
  loops.nest "z" (i = 4096) schedule <order = (i), lanes = i : 64> {
    %2 = loops.load %v[i]
    %3 = loops.load %y[0]
    %4 = arith.addf %2, %3 : f32
    loops.store %4, %z[i]
  }
}

// -----

// The same, but `h` is read only after `z` went through the caches.
// CHECK-LABEL: loops.func @between
// CHECK:         loops.store %{{.*}}, %h[i] nontemporal
// CHECK:         loops.store %{{.*}}, %z[i] nontemporal
// CHECK:         loops.store %{{.*}}, %y[i]{{$}}
loops.func @between {
  %x = assign.node "x" constant because "data" : memref<2048xf32>
  %h = assign.node "h" local because "intermediate value" : memref<2048xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<1024xf32>
  %v = assign.node "v" constant because "data" : memref<4096xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<4096xf32>
  loops.nest "h" (i = 2048) schedule <order = (i), lanes = i : 64> {
    %0 = loops.load %x[i]
    loops.store %0, %h[i]
  }
  loops.nest "z" (i = 4096) schedule <order = (i), lanes = i : 64> {
    %1 = loops.load %v[i]
    loops.store %1, %z[i]
  }
  loops.nest "y" (i = 1024) schedule <order = (i), lanes = i : 64> {
    %2 = loops.load %h[-2*i + 2046]
    loops.store %2, %y[i]
  }
}

// -----

// What the nest loads is in the caches anyway.
// CHECK-LABEL: loops.func @in_place
// CHECK:         loops.store %{{.*}}, %y[i]{{$}}
loops.func @in_place {
  %x = assign.node "x" constant because "data" : memref<8192xf32>
  %y = assign.node "y" on_device because "parameter" : memref<8192xf32>
  loops.nest "y" (i = 8192) schedule <order = (i), lanes = i : 64> {
    %0 = loops.load %x[i]
    %1 = loops.load %y[i]
    %2 = arith.subf %1, %0 : f32
    loops.store %2, %y[i]
  }
}

// -----

// Parts of lines: rows of 33 elements, vectors of 8, from the second element on, every other one, no vectors.
// CHECK-LABEL: loops.func @parts
// CHECK-NOT:     nontemporal
loops.func @parts {
  %x = assign.node "x" constant because "data" : memref<256x33xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<256x33xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<8224xf32>
  %v = assign.node "v" on_device because "computed by forward" : memref<256x64xf32>
  %w = assign.node "w" on_device because "computed by forward" : memref<8192xf32>
  loops.nest "y" (i = 256, j = 33) schedule <order = (i, j), lanes = j : 16> {
    %0 = loops.load %x[i, j]
    loops.store %0, %y[i, j]
  }
  loops.nest "z" (i = 8192) schedule <order = (i), lanes = i : 8> {
    %1 = loops.load %w[i]
    loops.store %1, %z[i]
  }
  loops.nest "z" (i = 8192) schedule <order = (i), lanes = i : 64> {
    %2 = loops.load %w[i]
    loops.store %2, %z[i + 1]
  }
  loops.nest "v" (i = 256, j = 32) schedule <order = (i, j), lanes = j : 32> {
    %3 = loops.load %x[i, j]
    loops.store %3, %v[i, 2*j]
  }
  loops.nest "w" (i = 8192) {
    %4 = loops.load %z[i]
    loops.store %4, %w[i]
  }
}

// -----

// Merged loops and tiles that are transposed fill lines, too; so do vectors of 32 small floats.
// CHECK-LABEL: loops.func @lines
// CHECK:         loops.store %{{.*}}, %y[i, j] nontemporal
// CHECK:         loops.store %{{.*}}, %z[i, j] nontemporal
// CHECK:         loops.store %{{.*}}, %v[i] nontemporal
loops.func @lines {
  %x = assign.node "x" constant because "data" : memref<256x33xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<256x33xf32>
  %t = assign.node "t" constant because "data" : memref<64x128xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<128x64xf32>
  %s = assign.node "s" constant because "data" : memref<8192xbf16>
  %v = assign.node "v" on_device because "computed by forward" : memref<8192xbf16>
  loops.nest "y" (i = 256, j = 33) schedule <merged = (i*j), order = (i*j), lanes = i*j : 64> {
    %0 = loops.load %x[i, j]
    loops.store %0, %y[i, j]
  }
  loops.nest "z" (i = 128, j = 64) schedule <order = (i, j), rows = j : 16, lanes = i : 16> {
    %1 = loops.load %t[j, i]
    loops.store %1, %z[i, j]
  }
  loops.nest "v" (i = 8192) schedule <order = (i), lanes = i : 32> {
    %2 = loops.load %s[i]
    loops.store %2, %v[i]
  }
}

// -----

// In a group, too, but not what a nest of it loads again, nor what lives inside.
// CHECK-LABEL: loops.func @group
// CHECK:         loops.store %{{.*}}, %e[0, j]{{$}}
// CHECK:         loops.store %{{.*}}, %y[i, j]{{$}}
// CHECK:         loops.store %{{.*}}, %z[i, j] nontemporal
loops.func @group {
  %x = assign.node "x" constant because "data" : memref<128x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<128x64xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<128x64xf32>
  loops.group "e .. z" (i = 128) {
    %e = assign.node "e" local because "intermediate value" : memref<1x64xf32>
    loops.nest "e" (j = 64) schedule <order = (j), lanes = j : 64> {
      %0 = loops.load %x[i, j]
      loops.store %0, %e[0, j]
    }
    loops.nest "y" (j = 64) schedule <order = (j), lanes = j : 64> {
      %1 = loops.load %e[0, -j + 63]
      loops.store %1, %y[i, j]
    }
    loops.nest "z" (j = 64) schedule <order = (j), lanes = j : 64> {
      %2 = loops.load %y[i, -j + 63]
      loops.store %2, %z[i, j]
    }
  }
}

// -----

// One row of a large table in each run: the routine touches 12 KiB.
// CHECK-LABEL: loops.func @slice
// CHECK:         loops.store %{{.*}}, %y[j]{{$}}
loops.func @slice indices (n = 100) {
  %x = assign.node "x" constant because "data" : memref<100x1536xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<1536xf32>
  loops.nest "y" (j = 1536) schedule <order = (j), lanes = j : 64> {
    %0 = loops.load %x[n, j]
    loops.store %0, %y[j]
  }
}
