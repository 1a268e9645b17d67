//! The committed corpus through every target, and a small seeded campaign around it.

use std::collections::BTreeSet;
use std::path::Path;

use ap_fuzz::TARGETS;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("every target has a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn every_target_has_a_binary_and_a_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        assert!(root.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
        assert!(corpus(name).len() >= 5, "{name} has too few seeds");
    }
    let present: BTreeSet<_> =
        std::fs::read_dir(root.join("corpus")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(present.len(), TARGETS.len(), "a corpus without a target");
}

#[test]
fn the_corpus_breaks_nothing() {
    for (name, body) in TARGETS {
        for seed in corpus(name) {
            body(&seed);
        }
        body(b"");
        println!("{name}: fine");
    }
}

/// xorshift: the same mutants on every machine.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n.max(1) as u64).expect("below n")
    }
}

#[test]
fn mutants_of_the_corpus_break_nothing() {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    for (name, body) in TARGETS {
        let seeds: Vec<Vec<u8>> = corpus(name).into_iter().filter(|s| s.len() < 8_000).collect();
        for _ in 0..200 {
            let mut mutant = seeds[rng.below(seeds.len())].clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(mutant.len());
                match rng.below(4) {
                    0 if !mutant.is_empty() => mutant[at] ^= 1 << rng.below(8),
                    1 => mutant.truncate(at),
                    2 => mutant
                        .insert(at.min(mutant.len()), b"\"{}[],:0-\\\n\x00\xff"[rng.below(13)]),
                    _ => {
                        let other = &seeds[rng.below(seeds.len())];
                        let from = rng.below(other.len());
                        mutant.extend_from_slice(&other[from..]);
                    }
                }
            }
            body(&mutant);
        }
    }
}
