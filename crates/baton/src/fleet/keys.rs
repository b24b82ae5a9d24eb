//! The keys of a machine, and how another machine knows that they are its keys.
//!
//! The fleet's key signs an invitation: a name and the public half of a key that lives only in the code that the
//! invited machine is given. That key signs the machine's own keys: one to sign and one to open envelopes. So the owner
//! of the database can neither add a machine nor change its keys, and no private key of a machine ever leaves it.

use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::{Header, MAX_SEALED, signed_bytes};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeR, OpModeS, Serializable as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::unhex;
use crate::sys::hash::hex;

const INVITE: &str = "baton fleet invitation 1";
const DEVICE: &str = "baton fleet device 1";
const REVOKE: &str = "baton fleet revocation 1";
/// HPKE's `info`: the suite and the purpose.
const INFO: &[u8] = b"baton fleet body 1";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("a key or a signature cannot be understood")]
    Malformed,
    #[error("no signature of the fleet's key proves it")]
    NotOfThisFleet,
    #[error("the invitation does not prove its keys")]
    NotInvited,
    #[error("its signature is not the sender's")]
    Forged,
    #[error("it was sealed for another machine, or changed on the way")]
    NotForUs,
    #[error("it is larger than {MAX_SEALED} bytes")]
    TooLarge,
    #[error("the operating system gave no random bytes")]
    Random,
}

/// A key that signs: the fleet's, an invitation's, or a machine's.
pub(crate) struct SignKey(SigningKey);

impl SignKey {
    pub(crate) fn random() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| KeyError::Random)?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    pub(crate) fn from_hex(seed: &str) -> Result<Self, KeyError> {
        Ok(Self(SigningKey::from_bytes(&unhex(seed).ok_or(KeyError::Malformed)?)))
    }

    pub(crate) fn seed(&self) -> String {
        hex(&self.0.to_bytes())
    }

    pub(crate) fn public(&self) -> String {
        hex(self.0.verifying_key().as_bytes())
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

fn verify(public: &str, bytes: &[u8], signature: &[u8]) -> Result<(), KeyError> {
    let key = VerifyingKey::from_bytes(&unhex(public).ok_or(KeyError::Malformed)?);
    let key = key.map_err(|_| KeyError::Malformed)?;
    let signature = Signature::from_slice(signature).map_err(|_| KeyError::Malformed)?;
    key.verify_strict(bytes, &signature).map_err(|_| KeyError::Forged)
}

/// The text that a proof is about. No part can contain the separator.
fn statement(purpose: &str, parts: &[&str]) -> Vec<u8> {
    [&[purpose], parts].concat().join("\n").into_bytes()
}

/// The founder's invitation for a machine, without the URL of its role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invitation {
    pub fleet: String,
    /// The fleet's public key.
    pub root: String,
    pub name: MachineName,
    /// The seed of the key that the invited machine proves its own keys with.
    pub seed: String,
    pub expires: Timestamp,
    /// The fleet key's signature.
    pub proof: String,
}

impl Invitation {
    pub(crate) fn new(
        root: &SignKey,
        fleet: &str,
        name: &MachineName,
        expires: Timestamp,
    ) -> Result<Self, KeyError> {
        let key = SignKey::random()?;
        // Whole seconds, as it is written.
        let expires = Timestamp::from_second(expires.as_second()).unwrap_or(expires);
        let proof = root.sign(&invited(fleet, name, &key.public(), expires));
        Ok(Self {
            fleet: fleet.to_owned(),
            root: root.public(),
            name: name.clone(),
            seed: key.seed(),
            expires,
            proof: hex(&proof),
        })
    }

    /// The code for people to carry: the URL of the machine's role with this behind it.
    pub(crate) fn code(&self, url: &str) -> String {
        let expires = self.expires.as_second();
        format!(
            "{url}#baton1.{}.{}.{}.{}.{expires}.{}",
            self.fleet, self.root, self.name, self.seed, self.proof
        )
    }

    /// The URL and the invitation in a code. `None`: a plain URL.
    pub(crate) fn from_code(code: &str) -> Option<Result<(String, Self), KeyError>> {
        let (url, rest) = code.split_once('#')?;
        let parse = || {
            let parts: Vec<&str> = rest.split('.').collect();
            let ["baton1", fleet, root, name, seed, expires, proof] = parts[..] else { return None };
            let invitation = Self {
                fleet: fleet.to_owned(),
                root: root.to_owned(),
                name: MachineName::new(name).ok()?,
                seed: seed.to_owned(),
                expires: Timestamp::from_second(expires.parse().ok()?).ok()?,
                proof: proof.to_owned(),
            };
            // A part of it may be missing where it was copied.
            let key = SignKey::from_hex(seed).ok()?.public();
            let proved = invited(fleet, &invitation.name, &key, invitation.expires);
            let proof: [u8; 64] = unhex(proof)?;
            verify(root, &proved, &proof).ok().map(|()| invitation)
        };
        Some(parse().map(|invitation| (url.to_owned(), invitation)).ok_or(KeyError::Malformed))
    }
}

fn invited(fleet: &str, name: &MachineName, key: &str, expires: Timestamp) -> Vec<u8> {
    statement(INVITE, &[fleet, name.as_str(), key, &expires.as_second().to_string()])
}

/// A machine's public keys with their proofs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    pub name: MachineName,
    pub invitation: String,
    pub expires: Timestamp,
    pub invited: String,
    pub sign: String,
    pub seal: String,
    pub proof: String,
}

impl Card {
    /// Whether these are the keys of the machine `name` in this fleet.
    pub(crate) fn check(&self, fleet: &str, root: &str, name: &MachineName) -> Result<(), KeyError> {
        if self.name != *name {
            return Err(KeyError::NotOfThisFleet);
        }
        let text = invited(fleet, name, &self.invitation, self.expires);
        let proof: [u8; 64] = unhex(&self.invited).ok_or(KeyError::Malformed)?;
        verify(root, &text, &proof).map_err(|_| KeyError::NotOfThisFleet)?;
        let text = statement(DEVICE, &[fleet, name.as_str(), &self.sign, &self.seal]);
        let proof: [u8; 64] = unhex(&self.proof).ok_or(KeyError::Malformed)?;
        verify(&self.invitation, &text, &proof).map_err(|_| KeyError::NotInvited)
    }

    /// The fleet key's signed statement that this machine no longer belongs to the fleet.
    pub(crate) fn tombstone(&self, fleet: &str, root: &SignKey) -> String {
        hex(&root.sign(&self.revocation(fleet)))
    }

    pub(crate) fn is_revoked_by(&self, fleet: &str, root: &str, tombstone: &str) -> bool {
        let proof: Option<[u8; 64]> = unhex(tombstone);
        proof.is_some_and(|proof| verify(root, &self.revocation(fleet), &proof).is_ok())
    }

    fn revocation(&self, fleet: &str) -> Vec<u8> {
        statement(REVOKE, &[fleet, self.name.as_str(), &self.sign])
    }

    /// Whether `signature` is this machine's under `bytes`.
    pub(crate) fn verify(&self, bytes: &[u8], signature: &[u8]) -> Result<(), KeyError> {
        verify(&self.sign, bytes, signature)
    }

    /// Seals `body` for this machine. The header is authenticated with it.
    pub(crate) fn seal(&self, header: &str, body: &[u8]) -> Result<Vec<u8>, KeyError> {
        let public: [u8; 32] = unhex(&self.seal).ok_or(KeyError::Malformed)?;
        let public =
            <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(&public).map_err(|_| KeyError::Malformed)?;
        let (key, mut context) = hpke::setup_sender::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &public,
            INFO,
        )
        .map_err(|_| KeyError::Malformed)?;
        let mut sealed = key.to_bytes().to_vec();
        sealed.extend(context.seal(body, header.as_bytes()).map_err(|_| KeyError::Malformed)?);
        if sealed.len() > MAX_SEALED { Err(KeyError::TooLarge) } else { Ok(sealed) }
    }
}

/// The private keys of this machine.
pub(crate) struct DeviceKeys {
    pub sign: SignKey,
    open: <X25519HkdfSha256 as Kem>::PrivateKey,
}

impl DeviceKeys {
    pub(crate) fn from_hex(sign: &str, seal: &str) -> Result<Self, KeyError> {
        let bytes: [u8; 32] = unhex(seal).ok_or(KeyError::Malformed)?;
        let open =
            <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(&bytes).map_err(|_| KeyError::Malformed)?;
        Ok(Self { sign: SignKey::from_hex(sign)?, open })
    }

    /// New keys for the machine that `invitation` names, and the card that proves them.
    pub(crate) fn accept(invitation: &Invitation) -> Result<(Self, Card), KeyError> {
        let sign = SignKey::random()?;
        let (open, public) = X25519HkdfSha256::gen_keypair();
        let seal = hex(&public.to_bytes());
        let join = SignKey::from_hex(&invitation.seed)?;
        let text = statement(DEVICE, &[&invitation.fleet, invitation.name.as_str(), &sign.public(), &seal]);
        let card = Card {
            name: invitation.name.clone(),
            invitation: join.public(),
            expires: invitation.expires,
            invited: invitation.proof.clone(),
            sign: sign.public(),
            seal,
            proof: hex(&join.sign(&text)),
        };
        card.check(&invitation.fleet, &invitation.root, &invitation.name)?;
        Ok((Self { sign, open }, card))
    }

    pub(crate) fn seal_hex(&self) -> String {
        hex(&self.open.to_bytes())
    }

    /// Opens a body that was sealed for this machine under this header.
    pub(crate) fn open(&self, header: &str, sealed: &[u8]) -> Result<Vec<u8>, KeyError> {
        if sealed.len() > MAX_SEALED {
            return Err(KeyError::TooLarge);
        }
        let (key, body) = sealed.split_at_checked(32).ok_or(KeyError::Malformed)?;
        let key = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(key).map_err(|_| KeyError::Malformed)?;
        let mut context = hpke::setup_receiver::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &self.open,
            &key,
            INFO,
        )
        .map_err(|_| KeyError::NotForUs)?;
        context.open(body, header.as_bytes()).map_err(|_| KeyError::NotForUs)
    }

    /// An envelope for the machine of `card`: header, sealed body, signature.
    pub(crate) fn envelope(&self, card: &Card, header: &Header, body: &[u8]) -> Result<Envelope, KeyError> {
        let header = header.encode();
        let sealed = card.seal(&header, body)?;
        let signature = self.sign.sign(&signed_bytes(&header, &sealed)).to_vec();
        Ok(Envelope { header, sealed, signature })
    }
}

/// The row for the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub header: String,
    pub sealed: Vec<u8>,
    pub signature: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use baton_core::fleet::envelope::{Kind, VERSION};
    use jiff::SignedDuration;

    use super::*;

    const FLEET: &str = "0011223344556677";

    fn machine(name: &str) -> MachineName {
        MachineName::new(name).unwrap()
    }

    fn invite(root: &SignKey, name: &str) -> Invitation {
        let expires = Timestamp::now() + SignedDuration::from_hours(24);
        Invitation::new(root, FLEET, &machine(name), expires).unwrap()
    }

    fn header(from: &str, to: &str) -> Header {
        Header {
            v: VERSION,
            fleet: FLEET.into(),
            id: format!("{from}.m1"),
            kind: Kind::Mail,
            from: machine(from),
            to: machine(to),
            epoch: 1,
        }
    }

    #[test]
    fn a_code_carries_the_invitation_and_a_plain_url_none() {
        let root = SignKey::random().unwrap();
        let invitation = invite(&root, "desk");
        let code = invitation.code("postgres://baton_desk:pw@db.example/app?sslmode=require");
        let (url, read) = Invitation::from_code(&code).unwrap().unwrap();
        assert_eq!(url, "postgres://baton_desk:pw@db.example/app?sslmode=require");
        assert_eq!(read, invitation);
        assert!(Invitation::from_code("postgres://db.example/app").is_none());
        assert!(Invitation::from_code("postgres://db.example/app#baton1.x").unwrap().is_err());
    }

    #[test]
    fn the_databases_owner_can_neither_add_a_machine_nor_change_its_keys() {
        let root = SignKey::random().unwrap();
        let (_, card) = DeviceKeys::accept(&invite(&root, "desk")).unwrap();
        let check = |card: &Card| card.check(FLEET, &root.public(), &machine("desk"));
        assert_eq!(check(&card), Ok(()));
        let owner = SignKey::random().unwrap();
        let (_, theirs) = DeviceKeys::accept(&invite(&owner, "desk")).unwrap();
        assert_eq!(check(&theirs), Err(KeyError::NotOfThisFleet));
        let swapped = Card { seal: theirs.seal.clone(), ..card.clone() };
        assert_eq!(check(&swapped), Err(KeyError::NotInvited));
        let swapped = Card { sign: theirs.sign.clone(), proof: theirs.proof.clone(), ..card.clone() };
        assert_eq!(check(&swapped), Err(KeyError::NotInvited));
        assert!(card.check(FLEET, &root.public(), &machine("laptop")).is_err());
        assert!(card.check("another", &root.public(), &machine("desk")).is_err());
    }

    #[test]
    fn a_body_is_for_one_machine_under_one_header_by_one_sender() {
        let root = SignKey::random().unwrap();
        let (laptop, laptop_card) = DeviceKeys::accept(&invite(&root, "laptop")).unwrap();
        let (desk, desk_card) = DeviceKeys::accept(&invite(&root, "desk")).unwrap();
        let (rented, rented_card) = DeviceKeys::accept(&invite(&root, "rented")).unwrap();
        let sent = laptop.envelope(&desk_card, &header("laptop", "desk"), b"the words").unwrap();
        let signed = signed_bytes(&sent.header, &sent.sealed);
        assert_eq!(laptop_card.verify(&signed, &sent.signature), Ok(()));
        assert_eq!(rented_card.verify(&signed, &sent.signature), Err(KeyError::Forged));
        assert_eq!(desk.open(&sent.header, &sent.sealed).unwrap(), b"the words");
        assert_eq!(rented.open(&sent.header, &sent.sealed), Err(KeyError::NotForUs));
        let other = header("rented", "desk").encode();
        assert_eq!(desk.open(&other, &sent.sealed), Err(KeyError::NotForUs));
        assert_eq!(desk.open(&sent.header, b"short"), Err(KeyError::Malformed));
        assert!(!sent.sealed.windows(9).any(|w| w == b"the words"));
        let kept = DeviceKeys::from_hex(&desk.sign.seed(), &desk.seal_hex()).unwrap();
        assert_eq!(kept.open(&sent.header, &sent.sealed).unwrap(), b"the words");
    }

    #[test]
    fn only_the_fleets_key_revokes() {
        let root = SignKey::random().unwrap();
        let (desk, card) = DeviceKeys::accept(&invite(&root, "desk")).unwrap();
        assert!(card.is_revoked_by(FLEET, &root.public(), &card.tombstone(FLEET, &root)));
        assert!(!card.is_revoked_by(FLEET, &root.public(), &card.tombstone(FLEET, &desk.sign)));
        assert!(!card.is_revoked_by(FLEET, &root.public(), "garbage"));
    }
}
